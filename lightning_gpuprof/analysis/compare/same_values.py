"""Whether two runs compute the same: recorded values (losses, metrics) step by step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import dist, inf, isfinite, isnan, nan
from typing import TypeVar

from lightning_gpuprof.records.schema import Scalars

_V = TypeVar("_V", float | None, list[float])


@dataclass(frozen=True)
class ValueCheck:
    """One value of both runs, at the steps that both recorded."""

    name: str
    count: int
    max_diff: float
    first_step: int | None
    last_base: float | None
    last_new: float | None
    of_tensor: bool = False

    @property
    def same(self) -> bool | None:
        """Whether all lie within the tolerance; None where nothing could be compared."""
        return None if not self.count else self.first_step is None


def check_values(
    base: Sequence[Scalars], new: Sequence[Scalars], *, tolerance: float
) -> tuple[ValueCheck, ...]:
    """Compare every value that both runs recorded, batch by batch.

    Batches count from the start of training, also in a resumed run. A value differs where the two
    are further apart than `tolerance` times the base's (of a tensor: its norm), or than `tolerance`
    itself near zero, or where only one is a finite number.

    >>> one = Scalars(steps=[0, 1], values={"loss": [2.0, 1.0]})
    >>> two = Scalars(steps=[0, 1], values={"loss": [2.0, 1.5]})
    >>> check_values([one], [two], tolerance=0.01)[0].first_step
    1
    """
    left, right = _series(base), _series(new)
    checks = [
        _check(name, _joined(left[name], right[name]), _difference, tolerance)
        for name in left
        if name in right
    ]
    one, other = _sketches(base), _sketches(new)
    for name in one:
        if name in other:
            both = {at: (one[name][at], other[name][at]) for at in one[name].keys() & other[name]}
            checks.append(replace(_check(name, both, _apart, tolerance), of_tensor=True))
    return tuple(checks)


def _sketches(records: Sequence[Scalars]) -> dict[str, dict[int, list[float]]]:
    """Return each tensor's norm and sums by batch, as NaN where one was no number."""
    found: dict[str, dict[int, list[float]]] = {}
    for record in records:
        for name, columns in record.tensors.items():
            kept = found.setdefault(name, {})
            lost = (record.not_finite or {}).get(name, ())
            for step, values in zip(record.steps, zip(*columns, strict=True), strict=False):
                if values[0] is not None or step in lost:
                    kept[record.first_batch + step] = [nan if v is None else v for v in values]
    return found


def _apart(base: Sequence[float], new: Sequence[float]) -> float:
    """Return how far two tensors lie apart, relative to the base's norm.

    >>> _apart([5.0, 3.0, 4.0], [5.0, 3.0, 4.5])
    0.1
    """
    if base == new:
        return 0.0
    if not all(map(isfinite, (*base, *new))):
        return 0.0 if not isfinite(base[0]) and not isfinite(new[0]) else inf
    norm, *sums = base
    # The norms differ by no more than the tensors do: two so different need no luck with signs.
    far = max(dist(sums, new[1:]), abs(norm - new[0]))
    return far / norm if norm else far


def _series(records: Sequence[Scalars]) -> dict[str, dict[int, float | None]]:
    found: dict[str, dict[int, float | None]] = {}
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


def _joined(
    base: dict[int, float | None], new: dict[int, float | None]
) -> dict[int, tuple[float | None, float | None]]:
    """Return both values at the batches that both recorded and at least one has."""
    both = {at: (base[at], new[at]) for at in base.keys() & new}
    return {at: pair for at, pair in both.items() if pair != (None, None)}


def _check(
    name: str, both: Mapping[int, tuple[_V, _V]], far: Callable[[_V, _V], float], tolerance: float
) -> ValueCheck:
    steps = sorted(both)
    diffs = [far(*both[step]) for step in steps]
    beyond = (step for step, diff in zip(steps, diffs, strict=True) if diff > tolerance)
    last = both[steps[-1]] if steps else (None, None)
    return ValueCheck(
        name=name,
        count=len(steps),
        max_diff=max(diffs, default=0.0),
        first_step=next(beyond, None),
        last_base=_number(last[0]),
        last_new=_number(last[1]),
    )


def _number(value: float | Sequence[float] | None) -> float | None:
    """Return a value, or a tensor's norm; None for what is no number."""
    first = value[0] if isinstance(value, Sequence) else value
    return None if first is None or isnan(first) else first


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None or isnan(a) or isnan(b):
        return 0.0 if a is not None and b is not None and isnan(a) and isnan(b) else inf
    if a == b:
        return 0.0
    absolute = abs(a - b)
    return min(absolute, absolute / abs(a)) if a else absolute
