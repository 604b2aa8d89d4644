"""What two runs have in common beside time: losses and metrics by step, machine, settings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan
from typing import Any

from lightning_gpuprof.records.schema import RunStart, Scalars

_Values = dict[int, float | None]
"""By batch; None where it was not finite in a record that does not say how."""


@dataclass(frozen=True)
class ValueCheck:
    """One value of both runs, at the steps that both recorded."""

    name: str
    count: int
    max_diff: float
    first_step: int | None
    last_base: float | None
    last_new: float | None

    @property
    def same(self) -> bool | None:
        """Whether all lie within the tolerance; None where nothing could be compared."""
        return None if not self.count else self.first_step is None


def check_values(
    base: Sequence[Scalars], new: Sequence[Scalars], *, tolerance: float
) -> tuple[ValueCheck, ...]:
    """Compare every value that both runs recorded, batch by batch.

    Batches count from the start of training, also in a resumed run. A value differs where the two
    are further apart than `tolerance` times the base's, or than `tolerance` itself near zero, or
    where only one is a finite number.
    """
    left, right = _series(base), _series(new)
    return tuple(_check(name, left[name], right[name], tolerance) for name in left if name in right)


def _series(records: Sequence[Scalars]) -> dict[str, _Values]:
    found: dict[str, _Values] = {}
    for record in records:
        for name, values in record.values.items():
            kept = found.setdefault(name, {})
            lost = (record.not_finite or {}).get(name, ())
            for step, value in zip(record.steps, values, strict=False):
                batch = record.first_batch + step
                if value is not None or step in lost:
                    kept[batch] = nan if value is None else value
                elif record.not_finite is None:
                    kept[batch] = None
    return found


def _check(name: str, base: _Values, new: _Values, tolerance: float) -> ValueCheck:
    """Compare a value at the batches that both recorded and at least one has."""
    both = {at: (base[at], new[at]) for at in sorted(base.keys() & new)}
    both = {at: pair for at, pair in both.items() if pair != (None, None)}
    diffs = {at: _difference(*pair) for at, pair in both.items()}
    last = both[max(both)] if both else (None, None)
    return ValueCheck(
        name,
        len(both),
        max(diffs.values(), default=0.0),
        next((at for at, diff in diffs.items() if diff > tolerance), None),
        *(None if value is None or isnan(value) else value for value in last),
    )


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None or isnan(a) or isnan(b):
        return 0.0 if a is not None and b is not None and isnan(a) and isnan(b) else inf
    if a == b:
        return 0.0
    absolute = abs(a - b)
    return min(absolute, absolute / abs(a)) if a else absolute


_VERSIONS = ("python", "torch", "lightning", "cuda", "hip")
_TRAINER = ("precision", "strategy", "accumulate_grad_batches", "num_devices", "detect_anomaly")
_TORCH = (
    *("cudnn_benchmark", "cudnn_deterministic", "cudnn_allow_tf32", "cudnn_enabled"),
    *("mkldnn_enabled", "float32_matmul_precision", "deterministic_algorithms"),
)
_LOADER = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor")


@dataclass(frozen=True)
class Difference:
    """A fact that is not the same; `kind` is machine, versions, model or settings."""

    kind: str
    name: str
    base: Any
    new: Any


def differences(base: RunStart, new: RunStart) -> tuple[Difference, ...]:
    """List the facts on which two runs differ; what either does not know is left out."""
    facts = (Difference(*fact) for fact in _facts(base, new))
    return tuple(one for one in facts if None not in (one.base, one.new) and one.base != one.new)


def _facts(base: RunStart, new: RunStart) -> Iterator[tuple[str, str, Any, Any]]:
    yield "machine", "host", base.host or None, new.host or None
    yield "machine", "cpu_count", base.cpu_count, new.cpu_count
    for name in ("type", "name", "total_bytes"):
        old, now = (getattr(run.device, name, None) for run in (base, new))
        yield "machine", f"device {name}", old, now
    yield "settings", "world_size", base.world_size, new.world_size
    for name in _VERSIONS:
        yield "versions", name, base.versions.get(name), new.versions.get(name)
    yield "model", "class", base.model.get("class"), new.model.get("class")
    ranks, now = ((run.world_size, run.trainer.get("strategy")) for run in (base, new))
    if ranks == now:  # a rank counts its own parameters: of a sharded model a part
        yield "model", "parameters", base.model.get("parameters"), new.model.get("parameters")
    yield "settings", "compiled", base.model.get("compiled"), new.model.get("compiled")
    for name in _TRAINER:
        yield "settings", name, base.trainer.get(name), new.trainer.get(name)
    for name in _TORCH:
        yield "settings", name, base.torch_settings.get(name), new.torch_settings.get(name)
    for name in _LOADER:
        yield "settings", name, getattr(base.loader, name, None), getattr(new.loader, name, None)
