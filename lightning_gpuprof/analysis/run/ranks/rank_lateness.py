"""Which ranks make the others wait, by more than chance.

A rank is late as far as two times agree: the others wait for it, and it works longer than they. A
wait alone may be the communication's own, whose threads share the cores with training; longer work
alone may come when nobody waits. Ranks that share cores or disks come last by turns. Only what a
rank costs above the others, and surely so (`chance.py`), is its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.analysis.chance import sure_means
from lightning_gpuprof.analysis.run.ranks.rank_steps import Table
from lightning_gpuprof.arrays import Floats
from lightning_gpuprof.records.phases import SAME_WORK, Phase

SURE_PART = 0.25
"""Ranks are late if this part of their delay is sure: a small sure part of a large delay says that
ranks differ a little, and that the rest is chance."""
UNLIKE = 2
"""Ranks have unequal work in a phase if it varies between them by so many times as much, per time
that it takes, as phases with the same work (`SAME_WORK`)."""


@dataclass(frozen=True)
class Lateness:
    """The ranks that others wait for most: a single rank, or several that are late together.

    Args:
        rows: The rows of these ranks.
        late_ns: The mean wait per step for these ranks.
        usual_ns: The mean wait per step for any other rank, which is due to chance.
        sure_ns: What the first surely exceeds the second by; not above 0 if chance explains it.
    """

    rows: tuple[int, ...]
    late_ns: float
    usual_ns: float
    sure_ns: float

    @property
    def delay_ns(self) -> float:
        """By how much these ranks delay a step, beyond what another rank does by chance."""
        return max(0.0, self.late_ns - self.usual_ns)

    def sure_with(self, causes: Mapping[Phase, "Cause"]) -> float | None:
        """Return what of the delay is sure; None if these ranks may be late by chance.

        A phase that surely takes longer on them explains a delay on a machine whose noise hides it.
        """
        delay_ns = self.delay_ns
        sure_ns = max(self.sure_ns, *(min(cause.sure_ns, delay_ns) for cause in causes.values()), 0)
        return sure_ns if 0 < SURE_PART * delay_ns <= sure_ns else None


def longer_by_step(work: Table, together: Sequence[int] = ()) -> Table:
    """Return by rank and step how much longer a rank works than the median rank.

    A last row is that of ranks that are late together, compared with the median of the others.
    """
    # The median of two ranks lies halfway between them.
    longer: Table = (work - np.median(work, axis=0)) * (2 if len(work) == 2 else 1)
    if len(together) < 2:
        return longer
    others = np.median(np.delete(work, together, axis=0), axis=0)
    return np.vstack([longer, work[list(together)].max(axis=0) - others])


def lateness(waits: Table, work: Table) -> Lateness:
    """Find the late ranks.

    Args:
        waits: How long ranks wait for others, by rank and step.
        work: How long they worked themselves since the meetings of the step before.
    """
    waited = waits.mean(axis=1)
    alone = [_waited_for(waits), _longer_than_any(work)]
    means = np.array([by_rank.mean(axis=1) for by_rank in alone]).min(axis=0)
    rows = [int(np.lexsort((waited, -means))[0])]
    late = [by_rank[rows[0]] for by_rank in alone]
    if together := _rows_together(waits):
        late_together = _together(waits, work, together)
        if _least(late) < _least(late_together) / 2:
            rows, late = together, late_together
    others = [row for row in range(len(means)) if row not in rows]
    usual = [by_rank[others].mean(axis=0) for by_rank in alone]
    delays = [
        float(of_late.mean() - of_others.mean())
        for of_late, of_others in zip(late, usual, strict=True)
    ]
    smaller = int(np.argmin(delays))
    return Lateness(
        rows=tuple(rows),
        late_ns=float(late[smaller].mean()),
        usual_ns=float(usual[smaller].mean()),
        sure_ns=min(_sure_ns(*times) for times in zip(late, usual, alone, strict=True)),
    )


def _rows_together(waits: Table) -> list[int]:
    """Return the ranks that wait less than half of what others do; empty if they are no group."""
    waited = waits.mean(axis=1)
    rows: list[int] = np.flatnonzero(waited < np.median(waited) / 2).tolist()
    return rows if 1 < len(rows) <= len(waits) / 2 else []


def _least(times: Sequence[Floats]) -> float:
    return min(float(values.mean()) for values in times)


def _sure_ns(late: Floats, usual: Floats, by_rank: Table) -> float:
    """Return what the late ranks surely cost above the others.

    Any rank might have been chosen, so that the differences of all are tested together.
    """
    of_others = (by_rank.sum(axis=0) - by_rank) / (len(by_rank) - 1)
    return float(sure_means(np.vstack([late - usual, by_rank - of_others]))[0])


def _together(waits: Table, work: Table, rows: Sequence[int]) -> list[Floats]:
    """Return per step the least wait of all other ranks, and how much longer these ranks worked."""
    waited: Floats = np.delete(waits, rows, axis=0).min(axis=0)
    longer: Floats = work[rows].max(axis=0) - np.delete(work, rows, axis=0).max(axis=0)
    return [waited, longer.clip(min=0)]


def _waited_for(waits: Table) -> Table:
    """Return by rank and step the least wait of all other ranks.

    Without the last rank, who waits least is the second; without another, it is the last.
    """
    least, second = np.partition(waits, 1, axis=0)[:2]
    waited: Table = np.where(waits == least, second - least, 0.0)
    return waited


def _longer_than_any(work: Table) -> Table:
    """Return by rank and step how much longer a rank worked than any other."""
    second, longest = np.partition(work, -2, axis=0)[-2:]
    longer: Table = np.where(work == longest, work - second, 0.0)
    return longer


def excess_of_last(
    by_phase: Mapping[Phase, Table], waits: Table, together: Sequence[int] = ()
) -> dict[Phase, Floats]:
    """Return per step by how much a phase takes longer on the last rank than on the median rank.

    If it is one of several that are late together, it is compared with the median of the others.
    """
    last = waits.argmin(axis=0)
    excess = {}
    for phase, table in by_phase.items():
        longer = np.take_along_axis(longer_by_step(table), last[None, :], axis=0)[0]
        if len(together) > 1:
            of_last = np.take_along_axis(table, last[None, :], axis=0)[0]
            others = np.median(np.delete(table, together, axis=0), axis=0)
            longer = np.where(np.isin(last, together), of_last - others, longer)
        excess[phase] = longer
    return excess


class Cause(NamedTuple):
    """By how much a phase takes longer on late ranks, as a mean per step, and how much is sure."""

    more_ns: float
    sure_ns: float


def causes_of(
    rows: Sequence[int], excess: Mapping[Phase, Floats], waits: Table
) -> dict[Phase, Cause]:
    """Return the phases that surely take longer where these ranks are last, the longest first.

    As much longer as phases take where another rank is last is usual, and left out.
    """
    last = waits.argmin(axis=0)
    others = len(waits) - len(rows)
    weights = np.where(np.isin(last, rows), 1.0, -1.0 / others)
    longer = np.array([values * weights for values in excess.values()])
    sure, means = sure_means(longer), longer.mean(axis=1)
    causes = {
        phase: Cause(float(mean), float(least))
        for phase, mean, least in zip(excess, means, sure, strict=True)
        if least > 0
    }
    return dict(sorted(causes.items(), key=lambda item: -item[1].more_ns))


def saved_without(
    rows: Sequence[int], causes: Iterable[Phase], by_phase: Mapping[Phase, Table], work: Table
) -> float:
    """Return by how much a step gets shorter if late ranks do not take longer in some phases.

    Without them a rank may still be last by chance, then or anyhow, which is not saved.
    """
    of_late = np.array(rows)
    late = of_late[work[of_late].argmax(axis=0)][None, :]
    lead = np.take_along_axis(work, late, axis=0)[0] - np.delete(work, rows, axis=0).max(axis=0)
    longer = np.zeros(work.shape[1])
    for phase in causes:
        table = by_phase[phase]
        usual = np.median(np.delete(table, rows, axis=0), axis=0)
        longer += np.take_along_axis(table, late, axis=0)[0] - usual
    return float((lead.clip(min=0) - (lead - longer).clip(min=0)).mean())


def mean_excess(excess: Mapping[Phase, Floats]) -> dict[Phase, int]:
    """Return by how much phases take longer on whichever rank is last, the longest first."""
    means = {phase: round(float(ns.mean())) for phase, ns in excess.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


def unequal_phases(by_phase: Mapping[Phase, Table]) -> tuple[Phase, ...]:
    """Return the phases in which ranks surely have unequal work, rather than an uneven machine."""
    spreads = {phase: _spread(table) for phase, table in by_phase.items()}
    alike = [phase for phase in SAME_WORK if phase in by_phase]
    alike_ns = sum(float(by_phase[phase].mean()) for phase in alike)
    by_machine = np.sum([spreads[phase] for phase in alike], axis=0) / alike_ns if alike_ns else 0.0
    phases = [phase for phase in by_phase if phase not in SAME_WORK]
    beyond = [
        spreads[phase] - UNLIKE * float(by_phase[phase].mean()) * by_machine for phase in phases
    ]
    sure = sure_means(np.array(beyond)) if phases else ()
    return tuple(phase for phase, least in zip(phases, sure, strict=True) if least > 0)


def _spread(table: Table) -> Floats:
    """Return per step by how much the longest rank exceeds the mean of all."""
    spread: Floats = table.max(axis=0) - table.mean(axis=0)
    return spread
