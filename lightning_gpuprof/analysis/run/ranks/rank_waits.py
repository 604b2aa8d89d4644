"""How long ranks wait for one another, step by step, and for which rank.

Ranks meet where they exchange gradients (`EXCHANGE`), in `self.log(sync_dist=True)`, and where
Lightning checks whether to stop (`STOP_CHECK`). At a meeting, the rank that waits least came last:
its wait is the communication itself. By what the others wait longer, they wait for that rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.analysis.run.loader_wait import LoaderWait, loader_wait
from lightning_gpuprof.analysis.run.ranks.rank_steps import RankSteps, Table
from lightning_gpuprof.analysis.run.steady import mean
from lightning_gpuprof.arrays import Floats, Int64, Mask
from lightning_gpuprof.records.lines import HostLines, WorkerLines
from lightning_gpuprof.records.phases import EXCHANGE, SELF_LOG, STOP_CHECK, Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED

FORWARD_MORE = 1.5
"""The forward pass counts as a meeting if that explains this many times as much lateness."""
_AFTER = (
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
    Phase.CALLBACKS,
    Phase.LOGGING,
    Phase.CHECKPOINT,
    Phase.VALIDATION,
    Phase.OTHER,
)
"""Phases after the exchange: they make a rank late in the step that follows."""
EXCHANGED = f"part/{Phase.BACKWARD.value}/{EXCHANGE}"
_MEETINGS = {
    Phase.LOGGING: f"part/{Phase.LOGGING.value}/{SELF_LOG}",
    Phase.OTHER: f"part/{Phase.OTHER.value}/{STOP_CHECK}",
}
"""Parts in which the host waits for other ranks, by the phase that they are parts of."""
_LOGGED = 1 + list(_MEETINGS).index(Phase.LOGGING)
"""The index of logging among the meetings, of which the exchange is the first."""

_Waits = Floats
"""By meeting, rank and step."""


@dataclass(frozen=True)
class RankWaits:
    """How long ranks wait for one another, and what makes ranks late; times are means per step.

    Args:
        exchange_ns: The exchange of gradients once the last rank has its own: exposed
            communication. None if only the whole backward pass was timed.
        waited_ns: How long a rank waits for others, by rank.
        last_frac: The share of steps in which a rank waits least, by rank.
        late: The ranks that others wait for most: a single rank, or several that are late together.
        late_ns: The saving per step if these ranks were never later than all others.
        usual_ns: The same for another rank, which is due to chance.
        mean_wait_ns: The mean of `waited_ns`.
        causes: By phase, by how much the rank that waits least exceeds the median rank.
        part: The callback, logger or other named part that makes up most of the first cause.
        lines: Samples of the training thread on the first late rank.
        worker_lines: Samples of its workers.
        loader_wait: What its wait for data consists of.
        other_lines: Samples of the training thread on a rank that is not late.
        log_waited_ns: How long a rank waits in `self.log`, by rank; empty on a GPU, where the host
            does not wait there.
    """

    exchange_ns: int | None
    waited_ns: dict[int, int]
    last_frac: dict[int, float]
    late: tuple[int, ...]
    late_ns: int
    usual_ns: int
    mean_wait_ns: int
    causes: dict[Phase, int]
    part: str | None
    lines: HostLines | None
    worker_lines: WorkerLines | None
    loader_wait: LoaderWait
    other_lines: HostLines | None = None
    log_waited_ns: dict[int, int] = field(default_factory=dict)


def rank_waits(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> RankWaits | None:
    """Compare when ranks met; None if fewer than two ranks measured it.

    Ranks also meet in the forward pass: DDP sends the first rank's buffers (BatchNorm) to all, and
    FSDP gathers parameters. Forward is assumed to be waiting if that explains more lateness.
    """
    order = sorted(steady)
    sessions = [ranks[rank] for rank in order]
    exchanges, timed = _exchanges(sessions)
    if exchanges is None:
        return None
    chosen = [
        steady[rank] & (column != NOT_MEASURED)
        for rank, column in zip(order, exchanges, strict=True)
    ]
    compared = _Compared(order, RankSteps(sessions, chosen), exchanges, timed)
    if not compared.steps:
        return None
    return compared.result()


def exchange_at_most(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> int | None:
    """Return the mean exchange on the rank where it is shortest; None if it was not timed."""
    exchanges, timed = _exchanges([ranks[rank] for rank in steady])
    if exchanges is None or not timed:
        return None
    measured = [
        exchange[mask & (exchange != NOT_MEASURED)]
        for exchange, mask in zip(exchanges, steady.values(), strict=True)
    ]
    return min((mean(exchange) for exchange in measured if len(exchange)), default=None)


def _exchanges(sessions: Sequence[Session]) -> tuple[list[Int64] | None, bool]:
    """Return the exchange in every step by rank, and whether it was timed by itself.

    If it was not, it is the whole backward pass.
    """
    on_device = any(map(_on_device, sessions))
    name = f"device_{EXCHANGED}" if on_device else EXCHANGED
    timed = all(name in session.columns for session in sessions)
    if timed:
        return [session.columns[name] for session in sessions], True
    backward = [None if on_device else session.phase_ns(Phase.BACKWARD) for session in sessions]
    measured = [column for column in backward if column is not None]
    return measured if len(measured) == len(sessions) else None, False


def _on_device(session: Session) -> bool:
    return session.start.device is not None and session.start.device.type != "cpu"


class _Compared:
    """The ranks of a run, compared with or without a meeting in the forward pass."""

    def __init__(
        self, order: Sequence[int], steps: RankSteps, exchanges: Sequence[Int64], timed: bool
    ) -> None:
        self.steps = steps
        self._order = order
        self._exchanges = exchanges
        self._timed = timed
        self._clock = "device" if any(map(_on_device, steps.sessions)) else "phase"

    def result(self) -> RankWaits:
        """Compare the ranks by the meetings that explain more."""
        waits = self._waits(forward=False)
        late = _late(waits)
        meeting_phases: tuple[Phase, ...] = ()
        waits_with_forward = self._waits(forward=True)
        late_with_forward = _late(waits_with_forward)
        if late_with_forward.costs_ns > FORWARD_MORE * late.costs_ns:
            waits, late = waits_with_forward, late_with_forward
            meeting_phases = (Phase.FORWARD,)
        whole = waits.sum(axis=0)
        last = whole.argmin(axis=0)
        last_frac = np.bincount(last, minlength=len(whole)) / whole.shape[1]
        causes = self._causes(last, without=meeting_phases)
        exchange = self.steps.table(self._exchanges).min(axis=0).mean()
        first = self.steps.sessions[late.rows[0]]
        other = next(
            session for row, session in enumerate(self.steps.sessions) if row not in late.rows
        )
        return RankWaits(
            exchange_ns=round(float(exchange)) if self._timed else None,
            waited_ns=self._by_rank(whole),
            log_waited_ns=self._by_rank(waits[_LOGGED]) if len(waits) > _LOGGED else {},
            last_frac=dict(zip(self._order, last_frac.tolist(), strict=True)),
            late=tuple(self._order[row] for row in late.rows),
            late_ns=round(late.costs_ns),
            usual_ns=round(late.usual_ns),
            mean_wait_ns=round(float(whole.mean())),
            causes=causes,
            part=self._part(late.rows[0], causes),
            lines=first.last(HostLines),
            worker_lines=first.last(WorkerLines),
            other_lines=other.last(HostLines),
            loader_wait=loader_wait(first, self.steps.chosen[late.rows[0]]),
        )

    def _by_rank(self, table: Table) -> dict[int, int]:
        means = table.mean(axis=1)
        return {rank: round(float(ns)) for rank, ns in zip(self._order, means, strict=True)}

    def _waits(self, *, forward: bool) -> _Waits:
        """Return how long ranks wait for others; with `forward`, they also meet in forward."""
        exchange = self.steps.table(self._exchanges)
        meetings = [exchange]
        if forward:
            # Together with the exchange, because a rank that computes longer waits less there.
            meetings = [exchange + self.steps.named(f"{self._clock}/{Phase.FORWARD.value}")]
        if self._clock == "phase":  # a host that drives a GPU does not wait there for other ranks
            meetings += [self.steps.named(name) for name in _MEETINGS.values()]
        return np.array([meeting - meeting.min(axis=0) for meeting in meetings])

    def _causes(self, last: npt.NDArray[np.intp], *, without: Sequence[Phase]) -> dict[Phase, int]:
        """Return by how much phases take longer on the last rank than on the median rank."""
        causes = {}
        for phase in Phase:
            values = None if phase in without else self._own(phase)
            if values is None:
                continue
            of_last = np.take_along_axis(values, last[None, :], axis=0)[0]
            excess_ns = float((of_last - np.median(values, axis=0)).mean())
            # The median of two ranks lies halfway between them.
            causes[phase] = round(excess_ns * (2 if len(values) == 2 else 1))
        return dict(sorted(causes.items(), key=lambda item: -item[1]))

    def _own(self, phase: Phase) -> Table | None:
        """Return a phase's time by rank without waits for others; None if not measured."""
        if phase is Phase.BACKWARD:
            if not self._timed:
                return None
            name = f"{self._clock}/{phase.value}"
            return self.steps.named(name) - self.steps.table(self._exchanges)
        columns = [session.phase_ns(phase) for session in self.steps.sessions]
        if any(column is None for column in columns):
            return None
        own = self.steps.table(columns, before=phase in _AFTER)
        if phase in _MEETINGS:
            own -= self.steps.named(_MEETINGS[phase], before=True)
        return own

    def _part(self, late: int, causes: Mapping[Phase, int]) -> str | None:
        """Return the named part that makes up most of the first cause on the rank in a row."""
        phase = next(iter(causes), None)
        if phase is None or phase is Phase.BACKWARD:
            return None
        prefix = f"part/{phase.value}/"
        excess_ns = {}
        for name in self.steps.sessions[late].columns:
            if name.startswith(prefix) and name not in _MEETINGS.values():
                means = self.steps.named(name).mean(axis=1)
                excess_ns[name] = means[late] - np.median(np.delete(means, late))
        most = max(excess_ns, key=lambda name: excess_ns[name], default="")
        if not most or excess_ns[most] < causes[phase] / 2:
            return None
        return most.removeprefix(prefix)


class _Late(NamedTuple):
    """The rows of the late ranks, what they cost, and what another rank costs."""

    rows: list[int]
    costs_ns: float
    usual_ns: float


def _late(waits: _Waits) -> _Late:
    """Return the late ranks, their cost, and the usual cost of another rank."""
    mean_ns = waits.sum(axis=0).mean(axis=1)
    late = [int(mean_ns.argmin())]
    together = np.flatnonzero(mean_ns < np.median(mean_ns) / 2).tolist()
    if 1 < len(together) <= len(mean_ns) / 2 and _gain(waits, late) < _gain(waits, together) / 2:
        late = together
    others = [row for row in range(len(mean_ns)) if row not in late]
    usual = [_gain(waits, [row]) for row in others[:4]]
    return _Late(late, _gain(waits, late), float(np.mean(usual)))


def _gain(waits: _Waits, rows: Sequence[int]) -> float:
    """Return the least wait of all other ranks: by so much the ranks in these rows are late."""
    return float(np.delete(waits, rows, axis=1).min(axis=1).sum(axis=0).mean())
