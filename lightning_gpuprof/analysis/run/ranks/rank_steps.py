"""The same steps of all ranks side by side, matched by their numbers.

Clocks of different hosts are never compared, because ranks that train together are in the same step
at the same time.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from lightning_gpuprof.analysis.run.ranks.late_span import LateSpan
from lightning_gpuprof.analysis.run.steady import MIN_STEADY, steady_steps
from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.rolled_run import COMPARED_CELLS
from lightning_gpuprof.records.schema import StepFlag

MIN_STEPS = 10
"""Fewer steps that all ranks have are not compared."""

Table = Floats
"""A row per rank, a column per step."""


def common_steady(ranks: Mapping[int, Session]) -> dict[int, Mask]:
    """Return the steps of every rank that are steady on all ranks, if there are enough.

    A rank that is being profiled makes all others wait, but only its own records say so. If too few
    steps are steady on all ranks, every rank's own steady steps are returned. Ranks without steps
    are left out.
    """
    steady = {rank: steady_steps(session) for rank, session in ranks.items() if session.steps}
    numbers = {rank: _numbers(ranks[rank]) for rank in steady}
    shared = _in_all([numbers[rank][steady[rank][: len(numbers[rank])]] for rank in steady])
    if len(steady) < 2 or len(shared) < MIN_STEADY:
        return steady
    return {rank: mask & np.isin(numbers[rank], shared) for rank, mask in steady.items()}


class RankSteps:
    """The chosen steps that all ranks have.

    Args:
        sessions: The session on every rank.
        chosen: Which of its steps to compare, by rank.

    Attributes:
        numbers: The numbers of the steps that are compared.
    """

    def __init__(self, sessions: Sequence[Session], chosen: Sequence[Mask]) -> None:
        self.sessions, self.chosen = sessions, chosen
        numbers = [_numbers(session) for session in sessions]
        rows = [
            _without_repeats(of_rank, np.flatnonzero(mask))
            for of_rank, mask in zip(numbers, chosen, strict=True)
        ]
        shared = np.zeros(0, dtype=np.int64)
        if all(map(len, numbers)):
            shared = _in_all(
                [of_rank[places] for of_rank, places in zip(numbers, rows, strict=True)]
            )
        self._enough = len(shared) >= MIN_STEPS
        self.numbers = shared = shared[-max(MIN_STEPS, COMPARED_CELLS // max(1, len(sessions))) :]
        self._rows = [
            places[np.isin(of_rank[places], shared)]
            for of_rank, places in zip(numbers, rows, strict=True)
        ]

    def __bool__(self) -> bool:
        """Whether there are enough ranks and steps to compare."""
        return len(self.sessions) > 1 and self._enough

    def between(self, span: LateSpan) -> "RankSteps":
        """Return those of the steps that are in a span."""
        chosen = [
            mask & span.holds(_numbers(session)[: len(mask)])
            for session, mask in zip(self.sessions, self.chosen, strict=True)
        ]
        return RankSteps(self.sessions, chosen)

    def named(self, name: str, *, before: bool = False) -> Table:
        """Return the values of a column of the records; see `table`."""
        return self.table([session.columns.get(name) for session in self.sessions], before=before)

    def table(self, columns: Sequence[Int64 | None], *, before: bool = False) -> Table:
        """Return the values of a column by rank and step; 0 for ranks and steps without a value.

        Args:
            columns: The column on every rank.
            before: Take the value of the step before.
        """
        values = []
        for column, rows in zip(columns, self._rows_before if before else self._rows, strict=True):
            values.append(np.zeros(len(rows)) if column is None else np.maximum(column[rows], 0))
        return np.array(values, dtype=np.float64)

    @cached_property
    def _rows_before(self) -> list[Int64]:
        pairs = zip(self.sessions, self._rows, strict=True)
        return [_previous(_numbers(session), rows) for session, rows in pairs]


def within_epochs(sessions: Sequence[Session], chosen: Sequence[Mask]) -> RankSteps:
    """Return the chosen steps without the first of each epoch, or all if they are too few.

    Before the first exchange of an epoch, ranks wait for what another rank does between epochs, and
    for the workers of its loader.
    """
    first = int(StepFlag.EPOCH_START)
    masks = [
        mask & (session.columns["flags"] & first == 0) if "flags" in session.columns else mask
        for session, mask in zip(sessions, chosen, strict=True)
    ]
    return RankSteps(sessions, masks) or RankSteps(sessions, chosen)


def over_steps(table: Table, count: int) -> Table:
    """Return the means over so many neighbouring steps, with fewer of them at the ends.

    >>> over_steps(np.array([[3.0, 0.0, 0.0, 6.0]]), 3).tolist()
    [[1.5, 1.0, 2.0, 3.0]]
    """
    ones = np.ones(count)
    steps = np.convolve(np.ones(table.shape[1]), ones, "same")
    means: Table = np.array([np.convolve(row, ones, "same") for row in table]) / steps
    return means


def _numbers(session: Session) -> Int64:
    return session.columns.get("step", np.zeros(0, dtype=np.int64))


def _previous(numbers: Int64, rows: Int64) -> Int64:
    """Return the rows of the steps before; a row itself if the step before was not recorded."""
    before = np.maximum(rows - 1, 0)
    return np.where(numbers[rows] - numbers[before] == 1, before, rows)


def _without_repeats(numbers: Int64, rows: Int64) -> Int64:
    """Return rows in the order of their numbers; damaged files may hold a number repeatedly."""
    if not len(numbers):
        return rows[:0]
    chosen = numbers[rows]
    if (np.diff(chosen) > 0).all():
        return rows
    return rows[np.unique(chosen, return_index=True)[1]]


def _in_all(numbers: Sequence[Int64]) -> Int64:
    """Return the numbers that all arrays hold, in order."""
    if not numbers:
        return np.zeros(0, dtype=np.int64)
    first, *others = numbers
    shared = first[_without_repeats(first, np.arange(len(first)))]
    for of_rank in others:
        shared = shared[np.isin(shared, of_rank)]
    return shared
