"""How long ranks wait for one another, step by step, and for which rank.

Ranks meet in collectives (`COLLECTIVES`), where DDP exchanges gradients (`EXCHANGE`), in
`self.log(sync_dist=True)`, and where Lightning checks whether to stop (`STOP_CHECK`). The rank that
waits least in these came last: its wait is the communication itself. By what the others wait
longer, they wait for that rank, as far as it also worked longer than they (`rank_lateness.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from lightning_gpuprof.analysis.run.loader_wait import LoaderWait, loader_wait
from lightning_gpuprof.analysis.run.ranks.late_reasons import LateReason, late_reasons
from lightning_gpuprof.analysis.run.ranks.late_span import LateSpan, late_span
from lightning_gpuprof.analysis.run.ranks.rank_lateness import (
    Lateness,
    causes_of,
    excess_of_last,
    lateness,
    longer_by_step,
    mean_excess,
    saved_without,
    unequal_phases,
)
from lightning_gpuprof.analysis.run.ranks.rank_mesh import axes_of, group_name
from lightning_gpuprof.analysis.run.ranks.rank_steps import (
    RankSteps,
    Table,
    over_steps,
    within_epochs,
)
from lightning_gpuprof.analysis.run.ranks.rank_work import (
    AFTER,
    MEETINGS,
    RankWork,
    exchanges_of,
    trains_on_device,
)
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.steady import mean
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.lines import HostLines, WorkerLines
from lightning_gpuprof.records.phases import BATCH_WORK, OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED

DDP = "DDP"
"""Strategies that start with this exchange gradients alone: other collectives are the program's."""
FORWARD_MORE = 1.5
"""The forward pass counts as a meeting if that explains this many times as much lateness."""
MORE_THAN_PACE = 0.3
"""A delay of this share of the step is no drift of a machine's pace."""
LIKE_OTHERS = 0.5
"""The pace of a machine drifts if the other phases get longer by this share of the increase of the
phase that gets longer most, or more."""
SPREAD_STEPS = 5
"""In a mesh of several axes, all ranks have waited for a late rank within this many steps."""


@dataclass(frozen=True)
class RankWaits:
    """How long ranks wait for one another, and what makes ranks late; times are means per step.

    Args:
        exchange_ns: The collectives of the work on a batch once the last rank has come: exposed
            communication. None if only the whole backward pass was timed.
        waited_ns: How long a rank waits for others, by rank.
        last_frac: The share of steps in which a rank waits least, by rank.
        late: The ranks that others wait for most: a single rank, or several that are late together.
        late_ns: The saving per step if these ranks were never later than all others.
        usual_ns: What is left of it without the causes, or what another rank costs: both by chance.
        sure_ns: What of the difference between the two is sure; None if chance explains three
            quarters of it or more.
        mean_wait_ns: The mean of `waited_ns`.
        causes: By phase, by how much it surely takes longer on the late ranks.
        turns: By phase, by how much it takes longer on whichever rank waits least.
        unequal: Phases in which ranks have unequal work, and not only an uneven machine.
        part: The callback, logger or other named part that makes up most of the first cause.
        lines: Samples of the training thread on the first late rank.
        worker_lines: Samples of its workers.
        loader_wait: What its wait for data consists of.
        other_lines: Samples of the training thread on a rank that is not late.
        meets_in_forward: Whether ranks also wait for one another in the forward pass.
        log_waited_ns: How long a rank waits in `self.log`, by rank; empty on a GPU, where the host
            does not wait there.
        span: The steps in which the late ranks are late, of which `late`, `late_ns`, `usual_ns`,
            `sure_ns`, `causes` and the samples are; None if those are all that are compared.
        steps: How many steps there are from the first of these to the last.
        steps_frac: Their share of all steps that are compared.
        step_ns: The mean step among them.
        group: The name of the group that consists of exactly the late ranks, if they are one.
        reasons: What is recorded of the late ranks, and differs on the others.
        waits_in: The phase in which ranks that are not late wait longest.
    """

    exchange_ns: int | None
    waited_ns: dict[int, int]
    last_frac: dict[int, float]
    late: tuple[int, ...]
    late_ns: int
    usual_ns: int
    sure_ns: int | None
    mean_wait_ns: int
    causes: dict[Phase, int]
    turns: dict[Phase, int]
    unequal: tuple[Phase, ...]
    part: str | None
    lines: HostLines | None
    worker_lines: WorkerLines | None
    loader_wait: LoaderWait
    other_lines: HostLines | None = None
    log_waited_ns: dict[int, int] = field(default_factory=dict)
    meets_in_forward: bool = False
    span: LateSpan | None = None
    steps: int = 0
    steps_frac: float = 1.0
    step_ns: int = 0
    group: str | None = None
    reasons: tuple[LateReason, ...] = ()
    waits_in: Phase | None = None

    @property
    def delay_ns(self) -> int:
        """By how much the late ranks delay a step, beyond what another rank does by chance."""
        return max(0, self.late_ns - self.usual_ns)


def rank_waits(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> RankWaits | None:
    """Compare when ranks met; None if fewer than two ranks measured it.

    Ranks also meet in the forward pass: DDP sends the first rank's buffers (BatchNorm) to all, and
    FSDP gathers parameters. Forward is assumed to be waiting if that explains more lateness.
    """
    order = sorted(steady)
    sessions = [ranks[rank] for rank in order]
    exchanges, timed = exchanges_of(sessions)
    if exchanges is None:
        return None
    chosen = [
        steady[rank] & (column != NOT_MEASURED)
        for rank, column in zip(order, exchanges, strict=True)
    ]
    steps = within_epochs(sessions, chosen)
    if not steps:
        return None
    compared = _Compared(order, steps, exchanges, timed)
    waits = compared.result()
    span = compared.late_span()
    within = None if span is None else steps.between(span)
    if not within:
        return waits
    compared = _Compared(order, within, exchanges, timed)
    late = compared.result()
    if late.sure_ns is None or compared.may_be_pace(late):
        return waits
    return replace(
        late,
        span=span,
        steps_frac=len(within.numbers) / len(steps.numbers),
        exchange_ns=waits.exchange_ns,
        waited_ns=waits.waited_ns,
        log_waited_ns=waits.log_waited_ns,
        last_frac=waits.last_frac,
        mean_wait_ns=waits.mean_wait_ns,
        turns=waits.turns,
        unequal=waits.unequal,
    )


def exchange_at_most(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> int | None:
    """Return the mean exchange on the rank where it is shortest; None if it was not timed."""
    exchanges, timed = exchanges_of([ranks[rank] for rank in steady])
    if exchanges is None or not timed:
        return None
    measured = [
        exchange[mask & (exchange != NOT_MEASURED)]
        for exchange, mask in zip(exchanges, steady.values(), strict=True)
    ]
    return min((mean(exchange) for exchange in measured if len(exchange)), default=None)


class _Comparison(NamedTuple):
    """How long ranks wait for others, what they work by phase, and who is late."""

    waits: Table
    work: dict[Phase, Table]
    late: Lateness


class _Compared:
    """The ranks of a run, compared with or without a meeting in the forward pass."""

    def __init__(
        self, order: Sequence[int], steps: RankSteps, exchanges: Sequence[Int64], timed: bool
    ) -> None:
        self.steps = steps
        self._order = order
        pairs = zip(order, steps.sessions, strict=True)
        self._starts = {rank: session.start for rank, session in pairs}
        self._exchanges = exchanges
        self._timed = timed
        self._on_device = any(map(trains_on_device, steps.sessions))
        self._work = RankWork(steps, exchanges, timed=timed, on_device=self._on_device)

    def result(self) -> RankWaits:
        """Compare the ranks by the meetings that explain more."""
        (waits, work, late), meets_in_forward = self._explained()
        last_frac = np.bincount(waits.argmin(axis=0), minlength=len(waits)) / waits.shape[1]
        excess = excess_of_last(work, waits, late.rows)
        sure_causes = causes_of(late.rows, excess, waits)
        causes = {phase: round(cause.more_ns) for phase, cause in sure_causes.items()}
        if causes:
            saved_ns = saved_without(late.rows, causes, work, self._work.whole(work))
            late = replace(late, usual_ns=late.late_ns - min(late.delay_ns, max(0.0, saved_ns)))
        sure_ns = late.sure_with(sure_causes)
        first = self.steps.sessions[late.rows[0]]
        other = next(
            session for row, session in enumerate(self.steps.sessions) if row not in late.rows
        )
        return RankWaits(
            exchange_ns=self._exposed_ns() if self._timed else None,
            waited_ns=self._by_rank(waits),
            log_waited_ns=self._log_waited_ns(),
            last_frac=dict(zip(self._order, last_frac.tolist(), strict=True)),
            late=tuple(self._order[row] for row in late.rows),
            late_ns=round(late.late_ns),
            usual_ns=round(late.usual_ns),
            sure_ns=None if sure_ns is None else round(sure_ns),
            mean_wait_ns=round(float(waits.mean())),
            causes=causes,
            turns=mean_excess(excess),
            unequal=unequal_phases(work),
            part=self._part(late.rows[0], causes),
            lines=first.last(HostLines),
            worker_lines=first.last(WorkerLines),
            other_lines=other.last(HostLines),
            loader_wait=loader_wait(first, self.steps.chosen[late.rows[0]]),
            meets_in_forward=meets_in_forward,
            waits_in=self._waits_in(late.rows),
            reasons=late_reasons(
                [self.steps.sessions[row] for row in late.rows],
                [
                    session
                    for row, session in enumerate(self.steps.sessions)
                    if row not in late.rows
                ],
            ),
            group=group_name(tuple(self._order[row] for row in late.rows), self._starts),
            step_ns=round(float(self.steps.named("dur_ns").mean())),
            steps=int(self.steps.numbers[-1] - self.steps.numbers[0]) + 1,
        )

    def _explained(self) -> "tuple[_Comparison, bool]":
        """Return the comparison that explains more, and whether ranks meet in forward there."""
        compared = self._compare(forward=False)
        if self._work.collectives(Phase.FORWARD).any():
            return compared, False
        with_forward = self._compare(forward=True)
        if with_forward.late.late_ns > FORWARD_MORE * compared.late.late_ns:
            return with_forward, True
        return compared, False

    def late_span(self) -> LateSpan | None:
        """Return the steps in which a rank is late; None if it is late in all of them, or none."""
        _, work, late = self._explained()[0]
        # A phase shows a delay that the whole work hides if the pace of machines drifts.
        tables = (self._work.whole(work), *work.values())
        longer = np.vstack([longer_by_step(table, late.rows) for table in tables])
        return late_span(longer, self.steps.numbers)

    def may_be_pace(self, waits: RankWaits) -> bool:
        """Return whether ranks may be late for a while because the pace of a machine drifts.

        All phases take longer by about the same share then.
        """
        if waits.delay_ns >= MORE_THAN_PACE * float(self.steps.named("dur_ns").mean()):
            return False
        rows = [self._order.index(rank) for rank in waits.late]
        longer: dict[Phase, tuple[float, float]] = {}
        for phase, table in self._work.by_phase().items():
            means = table.mean(axis=1)
            usual_ns = float(np.median(np.delete(means, rows)))
            longer[phase] = float(means[rows].mean()) - usual_ns, usual_ns
        first, *others = sorted(longer.values(), reverse=True)
        more_ns, usual_ns = (sum(values) for values in zip(*others, strict=True))
        return bool(first[0] * usual_ns * LIKE_OTHERS <= more_ns * first[1])

    def _compare(self, *, forward: bool) -> "_Comparison":
        """Return waits for others, work by phase and who is late; with `forward`, ranks meet there.

        What a rank does itself in forward is then unknown.
        """
        met = self._met(forward=forward)
        waits = met - met.min(axis=0)
        work = self._work.by_phase(without=(Phase.FORWARD,) if forward else ())
        return _Comparison(waits, work, lateness(waits, self._work.whole(work)))

    def _met(self, *, forward: bool) -> Table:
        """Return how long ranks are in collectives, from an exchange of gradients to the next.

        Some ranks may wait for a late rank where Lightning checks whether to stop, and others only
        in the exchange of the next step.

        Args:
            forward: The whole forward pass is waiting. It counts together with backward, because a
                rank that computes longer waits less there.
        """
        met = self.steps.table(self._exchanges)
        for phase in Phase:
            met += self._work.collectives(phase, before=phase in AFTER)
        if forward:
            clock = "device" if self._on_device else "phase"
            met += self.steps.named(f"{clock}/{Phase.FORWARD.value}")
        if not self._on_device:  # a host that drives a GPU does not wait there for other ranks
            for phase, name in MEETINGS.items():
                met += self.steps.named(name, before=phase in AFTER)
        # In a mesh of several axes, some ranks wait for a late rank itself, and others for those
        # that it has made late, which may be in the next step.
        spread = len(axes_of(self.steps.sessions)) > 1
        return over_steps(met, SPREAD_STEPS) if spread else met

    def _waits_in(self, rows: Sequence[int]) -> Phase | None:
        met = {phase: self._work.collectives(phase) for phase in Phase}
        met[Phase.BACKWARD] = met[Phase.BACKWARD] + self.steps.table(self._exchanges)
        if not self._on_device:
            for phase, name in MEETINGS.items():
                met[phase] = met[phase] + self.steps.named(name)
        waits = {
            phase: float(np.delete(table - table.min(axis=0), rows, axis=0).mean())
            for phase, table in met.items()
        }
        longest = max(waits, key=lambda phase: waits[phase])
        return longest if waits[longest] > 0 else None

    def _exposed_ns(self) -> int:
        tables = [self.steps.table(self._exchanges)]
        strategies = {settings_of(session.start).strategy for session in self.steps.sessions}
        if not any(strategy.startswith(DDP) for strategy in strategies):
            tables += [self._work.collectives(phase) for phase in BATCH_WORK]
        return round(sum(float(table.min(axis=0).mean()) for table in tables))

    def _log_waited_ns(self) -> dict[int, int]:
        if self._on_device:
            return {}
        logs = self.steps.named(MEETINGS[Phase.LOGGING])
        return self._by_rank(logs - logs.min(axis=0))

    def _by_rank(self, table: Table) -> dict[int, int]:
        means = table.mean(axis=1)
        return {rank: round(float(ns)) for rank, ns in zip(self._order, means, strict=True)}

    def _part(self, late: int, causes: Mapping[Phase, int]) -> str | None:
        """Return the named part that makes up most of the first cause on the rank in a row."""
        phase = next(iter(causes), None)
        if phase is None or phase is Phase.BACKWARD:
            return None
        prefix = f"part/{phase.value}/"
        not_work = (*MEETINGS.values(), *(f"{prefix}{name}" for name in OWN_CALLBACKS))
        excess_ns = {}
        for name in self.steps.sessions[late].columns:
            if name.startswith(prefix) and name not in not_work:
                means = self.steps.named(name).mean(axis=1)
                excess_ns[name] = means[late] - np.median(np.delete(means, late))
        most = max(excess_ns, key=lambda name: excess_ns[name], default="")
        if not most or excess_ns[most] < causes[phase] / 2:
            return None
        return most.removeprefix(prefix)
