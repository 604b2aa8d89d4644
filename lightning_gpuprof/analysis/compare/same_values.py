"""Whether two runs compute the same: recorded values (losses, metrics) step by step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isnan, nan

from lightning_gpuprof.records.schema import Scalars


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
    return tuple(
        _check(name, _joined(left[name], right[name]), tolerance) for name in left if name in right
    )


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
    name: str, both: Mapping[int, tuple[float | None, float | None]], tolerance: float
) -> ValueCheck:
    steps = sorted(both)
    diffs = [_difference(*both[step]) for step in steps]
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


def _number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value


def _difference(a: float | None, b: float | None) -> float:
    if a is None or b is None or isnan(a) or isnan(b):
        return 0.0 if a is not None and b is not None and isnan(a) and isnan(b) else inf
    if a == b:
        return 0.0
    absolute = abs(a - b)
    return min(absolute, absolute / abs(a)) if a else absolute
