"""The same steps of all ranks side by side, matched by their numbers.

Clocks of different hosts are never compared: ranks that train together take each step together.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from lightning_gpuprof.analysis.run.steady import MIN_STEADY, steady_steps
from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.reader import Session

MOST_CELLS = 1_000_000
"""Ranks times steps that are looked at: the last steps that so many cells hold."""
MIN_STEPS = 10
"""Fewer common steps are not compared."""

Table = Floats
"""A row per rank, a column per step."""


def common_steady(ranks: Mapping[int, Session]) -> dict[int, Mask]:
    """Return each rank's steady steps; where there are enough, those that are so on all ranks.

    A rank that is being profiled holds all others up, and only its own record says why. Ranks
    without steps are left out.
    """
    own = {r: steady_steps(one) for r, one in ranks.items() if one.steps}
    numbers = {r: _numbers(ranks[r]) for r in own}
    shared = _in_all([numbers[r][own[r][: len(numbers[r])]] for r in own])
    if len(own) < 2 or len(shared) < MIN_STEADY:
        return own
    return {r: own[r] & np.isin(numbers[r], shared) for r in own}


class RankSteps:
    """The steps that all ranks have."""

    def __init__(self, sessions: Sequence[Session], chosen: Sequence[Mask]) -> None:
        self.sessions, self.chosen = sessions, chosen
        numbers = [_numbers(one) for one in sessions]
        self._rows = [
            _once(one, np.flatnonzero(mask)) for one, mask in zip(numbers, chosen, strict=True)
        ]
        shared = np.zeros(0, dtype=np.int64)
        if all(map(len, numbers)):
            shared = _in_all([one[at] for one, at in zip(numbers, self._rows, strict=True)])
        self._enough = len(shared) >= MIN_STEPS
        shared = shared[-max(MIN_STEPS, MOST_CELLS // max(1, len(sessions))) :]
        self._rows = [
            at[np.isin(one[at], shared)] for one, at in zip(numbers, self._rows, strict=True)
        ]

    def __bool__(self) -> bool:
        """Whether there is anything to compare."""
        return len(self.sessions) > 1 and self._enough

    def named(self, name: str, *, before: bool = False) -> Table:
        """Return a column of the records; see `table`."""
        return self.table([one.columns.get(name) for one in self.sessions], before=before)

    def table(self, columns: Sequence[Int64 | None], *, before: bool = False) -> Table:
        """Return a value per rank and step; 0 where there is none."""
        rows = []
        for column, at, one in zip(columns, self._rows, self.sessions, strict=True):
            if before:
                at = _one_before(_numbers(one), at)
            rows.append(np.zeros(len(at)) if column is None else np.maximum(column[at], 0))
        return np.array(rows, dtype=np.float64)


def _numbers(session: Session) -> Int64:
    return session.columns.get("step", np.zeros(0, dtype=np.int64))


def _one_before(numbers: Int64, rows: Int64) -> Int64:
    """Return the row of the step before each, where that was recorded, else the row itself."""
    before = np.maximum(rows - 1, 0)
    return np.where(numbers[rows] - numbers[before] == 1, before, rows)


def _once(numbers: Int64, rows: Int64) -> Int64:
    """Return rows in the order of their numbers, the first of equal ones, as damaged files have."""
    if not len(numbers):
        return rows[:0]
    chosen = numbers[rows]
    if (np.diff(chosen) > 0).all():
        return rows
    return rows[np.unique(chosen, return_index=True)[1]]


def _in_all(numbers: Sequence[Int64]) -> Int64:
    """Return the numbers that are in all of some arrays, in order."""
    if not numbers:
        return np.zeros(0, dtype=np.int64)
    shared = numbers[0][_once(numbers[0], np.arange(len(numbers[0])))]
    for one in numbers[1:]:
        shared = shared[np.isin(shared, one)]
    return shared
