"""Whether two runs compute the same: recorded values (losses, metrics) step by step."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

from lightning_gpuprof.records.schema import Scalars

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
