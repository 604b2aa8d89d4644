"""Which steps of a run are marked, where marking every one of them would cost too much."""

from array import array
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.step_timeline import StepTimeline

_GOLDEN = 0.6180339887498949
"""Multiples of it, less their whole parts, are spread evenly and follow no period: a loop that
does something else every few steps is met in all its states."""
_EPOCH_START = int(StepFlag.EPOCH_START)  # an operation on a flag itself is five calls


class HasStepFlags(Protocol):
    """Such as the run's output."""

    step_flags: int


class StepChoice:
    """Marks every step, or after `spread` one step in so many, somewhere in each block of them.

    The first step of an epoch is always marked, and so is one that somebody insists on. A step
    that is not marked has no phases: its time is known from border to border alone. What lies
    between epochs is rare and may be long: all of it is timed.

    Args:
        timeline: Asks, where a step begins, and is told.
        use: Called with whether regions are to be timed from here on.
        insists: Has `step_flags`, not 0 where the step that begins must be marked, such as a
            profiled one.
    """

    def __init__(
        self,
        timeline: StepTimeline,
        *,
        use: Callable[[bool], None],
        insists: HasStepFlags,
    ) -> None:
        self.every = 1
        self._timeline = timeline
        self._use = use
        self._insists = insists
        self._since: int | None = None
        self._chosen: array[int] = array("q")
        self._block = self._left = 0

    def spread(self, every: int) -> None:
        """Mark one step in so many, from the next one on."""
        if self._since is None:
            self._since = self._timeline.step + 1
            self._timeline.nth_mark = self._timeline.step
            self._timeline.choose = self._choose
            self._timeline.left = partial(self._mark, True)
        self.every = every
        self._left = 1

    def is_marked(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Tell of each step, asked for in order and once, whether it was marked."""
        if self._since is None:
            return np.ones(len(steps), dtype=np.bool_)
        chosen = np.array(self._chosen, dtype=np.int64)
        marked: npt.NDArray[np.bool_] = (steps < self._since) | np.isin(steps, chosen)
        del self._chosen[: int(np.searchsorted(chosen, steps[-1], side="right"))]
        return marked

    def _choose(self) -> bool:
        timeline = self._timeline
        self._left -= 1
        due = self._left <= 0
        if due:
            self._left = self._gap()
        mark = due or bool(timeline.flags & _EPOCH_START or self._insists.step_flags)
        if mark:
            self._chosen.append(timeline.step)
            timeline.nth_mark += 1
        self._mark(mark)
        return mark

    def _mark(self, mark: bool) -> None:
        if mark is not self._timeline.marked:
            self._timeline.marked = mark
            self._use(mark)

    def _gap(self) -> int:
        """Return the steps from this block's mark to the next block's."""
        here = self._place(self._block)
        self._block += 1
        return self.every + self._place(self._block) - here

    def _place(self, block: int) -> int:
        return int(self.every * (block * _GOLDEN % 1.0))
