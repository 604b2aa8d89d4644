"""Since which step a rank is late, and until when."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.shifts.levels import (
    Blocks,
    Change,
    find_change,
    first_step,
    last_step,
)

MOST_ROWS = 16
"""Of many ranks and phases, those that are longest are looked at."""
MOSTLY = 0.6
"""The share of all lateness that lies within a span."""
_LOW = 0.3
"""A rank that was late by more than this share of its delay before is late all the time."""
_OUT_OF_NOISE = 9
"""Six standard deviations, by the median of absolute deviations."""


@dataclass(frozen=True)
class LateSpan:
    """The steps in which a rank is late, if it is not late in all that are compared.

    Args:
        since: The number of the first step; None if it is late from the first compared step on.
        until: The number of the last step; None if it is late up to the last one.
    """

    since: int | None
    until: int | None

    def holds(self, numbers: Int64) -> Mask:
        """Return whether steps with these numbers are in the span."""
        inside: Mask = np.ones(len(numbers), dtype=bool)
        if self.since is not None:
            inside &= numbers >= self.since
        if self.until is not None:
            inside &= numbers <= self.until
        return inside


def late_span(late: Floats, numbers: Int64) -> LateSpan | None:
    """Return the steps in which the rank that costs most is late; None if that is all the time.

    Args:
        late: By how much ranks take longer, a row for each and a column for each step.
        numbers: The numbers of the steps, shape `(steps,)`.

    >>> numbers = np.arange(400)
    >>> noise = np.tile([0.0, 1.0, 0.5, 0.2], 100)
    >>> late_span(np.array([noise, noise + 30 * (numbers >= 250)]), numbers)
    LateSpan(since=250, until=None)
    >>> late_span(np.array([noise + 30 * (numbers < 120), noise]), numbers)
    LateSpan(since=None, until=119)
    >>> late_span(np.array([noise, noise + 30]), numbers) is None
    True
    """
    order = np.argsort(-late.mean(axis=1))[:MOST_ROWS]
    spans = [_span(late[row]) for row in order]
    costs = [
        (_cost(late[row], span), span)
        for row, span in zip(order, spans, strict=True)
        if span is not None
    ]
    cost, best = max(costs, default=(0.0, None))
    # Noise in other phases may hide the change of the whole work.
    if best is None or cost < MOSTLY * float(late[order].sum(axis=1).max()):
        return None
    since, until = best
    return LateSpan(
        since=None if since == 0 else int(numbers[since]),
        until=None if until == len(numbers) else int(numbers[until - 1]),
    )


def _cost(values: Floats, span: tuple[int, int]) -> float:
    return float(values[slice(*span)].sum())


def _span(values: Floats) -> tuple[int, int] | None:
    """Return the first index at which values are high, and the one after the last."""
    blocks = Blocks.of(len(values))
    change = find_change(blocks.medians(values))
    if change is not None and _is_new(change):
        until = len(values) if change.until == blocks.count else _last(values, change, blocks)
        if until < len(values) and not _is_low(values[until:], change):
            until = len(values)
        return _first(values, change, blocks), until
    # It may be late from the beginning: the same in the reverse order.
    reverse: Floats = values[::-1]
    change = find_change(blocks.medians(reverse))
    if change is None or not _is_new(change) or change.until != blocks.count:
        return None
    return 0, len(values) - _first(reverse, change, blocks)


def _is_new(change: Change) -> bool:
    """Return whether values were low before, and not only lower."""
    return not change.rises and change.before <= _LOW * (change.before + change.height)


def _is_low(after: Floats, change: Change) -> bool:
    """Return whether values are low after a change, so that it is over and not only smaller."""
    return bool(np.median(after) <= _LOW * (change.before + change.height))


def _first(values: Floats, change: Change, blocks: Blocks) -> int:
    height = _least_height(values[: blocks.begin(change.since)], change)
    reach = blocks.around(change.since)
    return first_step(values, before=change.before, height=height, reach=reach)


def _last(values: Floats, change: Change, blocks: Blocks) -> int:
    height = _least_height(values[: blocks.begin(change.since)], change)
    reach = blocks.around(change.until)
    return last_step(values, before=change.before, height=height, reach=reach)


def _least_height(before: Floats, change: Change) -> float:
    """Return a height that stands out from the values before a change.

    A delay may be small at first, as a collection is while there are few objects.
    """
    noise = float(np.median(np.abs(before - np.median(before))))
    return min(change.height, max(change.height / 4, _OUT_OF_NOISE * noise))
