"""Compares what `predict_step` returned in two runs, by the samples that both recorded."""

from collections.abc import Iterator
from math import inf

from lightning_gpuprof.analysis.compare.same import ValueCheck
from lightning_gpuprof.records.facts import OutputSample, PredictOutputs

OUTPUT = "output"


def check_outputs(
    base: PredictOutputs | None, new: PredictOutputs | None, *, tolerance: float
) -> tuple[ValueCheck, ...]:
    """Compare every tensor of the outputs, batch by batch.

    Tensors of different shapes are not compared. Differences are relative to the largest value that
    was sampled of the base's tensor. Batches count through all loaders in order.
    """
    old, now = _by_name(base), _by_name(new)
    return tuple(_check(name, old[name], now[name], tolerance) for name in old if name in now)


def _by_name(outputs: PredictOutputs | None) -> dict[str, dict[tuple[int, int], OutputSample]]:
    by_name: dict[str, dict[tuple[int, int], OutputSample]] = {}
    for sample in outputs.samples if outputs is not None else ():
        by_name.setdefault(sample.name, {})[sample.loader, sample.batch] = sample
    return by_name


def _check(
    name: str,
    base: dict[tuple[int, int], OutputSample],
    new: dict[tuple[int, int], OutputSample],
    tolerance: float,
) -> ValueCheck:
    pairs = {
        batch: (base[batch], new[batch])
        for batch in sorted(base.keys() & new)
        if base[batch].shape == new[batch].shape
    }
    diffs = {batch: _difference(*pair) for batch, pair in pairs.items()}
    last = pairs[max(pairs)] if pairs else None
    return ValueCheck(
        name=f"{OUTPUT} {name}" if name else OUTPUT,
        count=len(pairs),
        max_diff=max(diffs.values(), default=0.0),
        first_step=next((batch for (_, batch), diff in diffs.items() if diff > tolerance), None),
        last_base=None if last is None else _mean(last[0]),
        last_new=None if last is None else _mean(last[1]),
        equal_count=sum(_is_equal(*pair) for pair in pairs.values()),
    )


def _is_equal(base: OutputSample, new: OutputSample) -> bool:
    return (base.dtype, base.checksum, base.values) == (new.dtype, new.checksum, new.values)


def _difference(base: OutputSample, new: OutputSample) -> float:
    """Return the largest difference of two samples; infinite if only one value is finite."""
    largest = max((abs(value) for value in base.values if value is not None), default=0.0)
    differences = list(_differences(base, new))
    worst = max(differences, default=0.0)
    return worst / largest if largest and worst != inf else worst


def _differences(base: OutputSample, new: OutputSample) -> Iterator[float]:
    for old, now in zip(base.values, new.values, strict=False):
        if old is not None and now is not None:
            yield abs(old - now)
        elif (old is None) != (now is None):
            yield inf


def _mean(sample: OutputSample) -> float | None:
    values = [value for value in sample.values if value is not None]
    return sum(values) / len(values) if values else None
