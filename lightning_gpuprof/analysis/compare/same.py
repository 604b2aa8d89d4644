"""Compares two runs apart from their times: losses and metrics by step, machine, settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Literal

from lightning_gpuprof.records.schema import RunStart, Scalars

_Values = dict[int, float | None]
"""Values by batch; None if a value was not finite and the record does not say how."""


@dataclass(frozen=True)
class ValueCheck:
    """A recorded value of both runs, compared at the steps that both recorded."""

    name: str
    count: int
    """How many steps were compared."""
    max_diff: float
    """The largest difference, relative to the base's value."""
    first_step: int | None
    """The first step at which they differ beyond the tolerance; None if no step does."""
    last_base: float | None
    """The value at the last compared step; None if it is not a finite number."""
    last_new: float | None
    equal_count: int | None = None
    """In how many of them the values are equal bit for bit; None for what `self.log` recorded."""

    @property
    def same(self) -> bool | None:
        """Whether all differences are within the tolerance; None if no step was compared."""
        return None if not self.count else self.first_step is None


def check_values(
    base: Sequence[Scalars], new: Sequence[Scalars], *, tolerance: float
) -> tuple[ValueCheck, ...]:
    """Compare every value that both runs recorded, batch by batch.

    Batches count from the start of training, also in a resumed run. Two values differ if they
    are further apart than `tolerance` times the base's, or than `tolerance` itself near zero, or
    if only one of them is a finite number.
    """
    old, now = _series(base), _series(new)
    return tuple(_check(name, old[name], now[name], tolerance) for name in old if name in now)


def _series(records: Sequence[Scalars]) -> dict[str, _Values]:
    """Return every recorded value by name and batch; NaN if it was not finite."""
    series: dict[str, _Values] = {}
    for record in records:
        for name, values in record.values.items():
            by_batch = series.setdefault(name, {})
            not_finite = (record.not_finite or {}).get(name, ())
            for step, value in zip(record.steps, values, strict=False):
                batch = record.first_batch + step
                if value is not None or step in not_finite:
                    by_batch[batch] = nan if value is None else value
                elif record.not_finite is None:
                    by_batch[batch] = None
    return series


def _check(name: str, base: _Values, new: _Values, tolerance: float) -> ValueCheck:
    """Compare a value at the batches that both runs recorded, unless both have None there."""
    pairs = {batch: (base[batch], new[batch]) for batch in sorted(base.keys() & new)}
    pairs = {batch: pair for batch, pair in pairs.items() if pair != (None, None)}
    diffs = {batch: _difference(*pair) for batch, pair in pairs.items()}
    last_base, last_new = pairs[max(pairs)] if pairs else (None, None)
    return ValueCheck(
        name=name,
        count=len(pairs),
        max_diff=max(diffs.values(), default=0.0),
        first_step=next((batch for batch, diff in diffs.items() if diff > tolerance), None),
        last_base=_number(last_base),
        last_new=_number(last_new),
    )


def _number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None or isnan(a) or isnan(b):
        return 0.0 if a is not None and b is not None and isnan(a) and isnan(b) else inf
    if a == b:
        return 0.0
    absolute = abs(a - b)
    return min(absolute, absolute / abs(a)) if a else absolute


_DEVICE = ("type", "name", "total_bytes")
_VERSIONS = ("python", "torch", "lightning", "cuda", "hip")
_TRAINER = ("precision", "strategy", "accumulate_grad_batches", "num_devices", "detect_anomaly")
_TORCH = (
    *("cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "cudnn_enabled"),
    *("mkldnn_enabled", "float32_matmul_precision", "deterministic_algorithms"),
)
_LOADER = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor")


Kind = Literal["machine", "versions", "model", "settings"]


@dataclass(frozen=True)
class Difference:
    """A recorded fact, such as the host or a setting, that differs between two runs.

    `base` and `new` are as the user's program gave them: text, numbers or booleans.
    """

    kind: Kind
    name: str
    base: object
    new: object


def differences(base: RunStart, new: RunStart) -> tuple[Difference, ...]:
    """Return the facts that differ between two runs, among those that both recorded."""
    return tuple(
        fact
        for fact in _facts(base, new)
        if fact.base is not None and fact.new is not None and fact.base != fact.new
    )


def _facts(base: RunStart, new: RunStart) -> Iterator[Difference]:
    """Yield every recorded fact with its value in both runs, whether these differ or not."""
    yield Difference("machine", "host", base.host or None, new.host or None)
    yield Difference("machine", "cpu_count", base.cpu_count, new.cpu_count)
    for name in _DEVICE:
        old, now = (getattr(run.device, name, None) for run in (base, new))
        yield Difference("machine", f"device {name}", old, now)
    yield Difference("settings", "world_size", base.world_size, new.world_size)
    for name in _VERSIONS:
        yield Difference("versions", name, base.versions.get(name), new.versions.get(name))
    yield Difference("model", "class", base.model.get("class"), new.model.get("class"))
    shards, now = ((run.world_size, run.trainer.get("strategy")) for run in (base, new))
    if shards == now:  # a rank counts only its own part of the parameters of a sharded model
        counts = (base.model.get("parameters"), new.model.get("parameters"))
        yield Difference("model", "parameters", *counts)
    compiled = (base.model.get("compiled"), new.model.get("compiled"))
    yield Difference("settings", "compiled", *compiled)
    for name in _TRAINER:
        yield Difference("settings", name, base.trainer.get(name), new.trainer.get(name))
    for name in _TORCH:
        old, now = base.torch_settings.get(name), new.torch_settings.get(name)
        yield Difference("settings", name, old, now)
    for name in _LOADER:
        old, now = (getattr(run.loader, name, None) for run in (base, new))
        yield Difference("settings", name, old, now)
