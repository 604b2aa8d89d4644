"""How long ranks wait for one another, step by step, and for which rank.

Ranks meet where they exchange gradients (`EXCHANGE`), in `self.log(sync_dist=True)`, and where
Lightning asks whether to stop (`STOP_CHECK`). At each meeting the rank that waits least came last:
its wait is the communication itself, and the rest of the others' waits is for that rank.
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
"""Forward counts as waiting where that explains this many times the lateness."""
_AFTER = (
    Phase.CLIP_GRADIENTS,
    Phase.OPTIMIZER_STEP,
    Phase.CALLBACKS,
    Phase.LOGGING,
    Phase.CHECKPOINT,
    Phase.VALIDATION,
    Phase.OTHER,
)
"""Phases after the exchange: they make a rank late in the next step."""
EXCHANGED = f"part/{Phase.BACKWARD.value}/{EXCHANGE}"
_MEETINGS = {
    Phase.LOGGING: f"part/{Phase.LOGGING.value}/{SELF_LOG}",
    Phase.OTHER: f"part/{Phase.OTHER.value}/{STOP_CHECK}",
}
"""Parts in which the host waits for other ranks, by the phase that they are parts of."""
_LOGGED = 1 + list(_MEETINGS).index(Phase.LOGGING)
"""Its index among the meetings, of which the exchange is the first."""

_Waits = Floats
"""By meeting, rank and step."""


@dataclass(frozen=True)
class RankWaits:
    """The cost of waiting, mean per step.

    Args:
        exchange_ns: Exchange of gradients once the last rank has its own: exposed communication.
            None where only the whole backward pass was timed.
        late: The ranks that others wait for most: one, or several that are late together.
        late_ns: Saving per step if these were never later than all others.
        usual_ns: The same for another rank: the part of chance.
        causes: By phase, its excess on the rank that waits least over the median rank.
        part: The callback, logger or other named part that makes up most of the first cause.
        log_waited_ns: By rank, its wait in `self.log`; empty where a host does not wait (a GPU).
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
    """Compare when ranks met; None where fewer than two measured it.

    Ranks also meet in the forward pass: DDP sends the first rank's buffers (BatchNorm) to all, FSDP
    gathers parameters. Forward is taken for waiting where that explains more of the lateness.
    """
    order = sorted(steady)
    sessions = [ranks[r] for r in order]
    exchanges, timed = _exchanges(sessions)
    if exchanges is None:
        return None
    chosen = [
        steady[r] & (column != NOT_MEASURED) for r, column in zip(order, exchanges, strict=True)
    ]
    compared = _Compared(order, RankSteps(sessions, chosen), exchanges, timed)
    if not compared.steps:
        return None
    return compared.result()


def exchange_at_most(ranks: Mapping[int, Session], steady: Mapping[int, Mask]) -> int | None:
    """Return the mean exchange of the rank with the shortest; None where it was not timed."""
    exchanges, timed = _exchanges([ranks[r] for r in steady])
    if exchanges is None or not timed:
        return None
    pairs = zip(exchanges, steady.values(), strict=True)
    chosen = [one[mask & (one != NOT_MEASURED)] for one, mask in pairs]
    return min((mean(one) for one in chosen if len(one)), default=None)


def _exchanges(sessions: Sequence[Session]) -> tuple[list[Int64] | None, bool]:
    """Return each step's exchange by rank, and whether it was timed by itself."""
    on_device = any(map(_on_device, sessions))
    name = f"device_{EXCHANGED}" if on_device else EXCHANGED
    timed = all(name in one.columns for one in sessions)
    if timed:
        return [one.columns[name] for one in sessions], True
    whole = [None if on_device else one.phase_ns(Phase.BACKWARD) for one in sessions]
    known = [column for column in whole if column is not None]
    return known if len(known) == len(sessions) else None, False


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
        but: tuple[Phase, ...] = ()
        with_forward = self._waits(forward=True)
        instead = _late(with_forward)
        if instead.costs_ns > FORWARD_MORE * late.costs_ns:
            waits, late, but = with_forward, instead, (Phase.FORWARD,)
        whole = waits.sum(axis=0)
        last = whole.argmin(axis=0)
        share = np.bincount(last, minlength=len(whole)) / whole.shape[1]
        causes = self._causes(last, but=but)
        exchange = self.steps.table(self._exchanges).min(axis=0).mean()
        first = self.steps.sessions[late.rows[0]]
        other = next(one for at, one in enumerate(self.steps.sessions) if at not in late.rows)
        return RankWaits(
            exchange_ns=round(float(exchange)) if self._timed else None,
            waited_ns=self._by_rank(whole),
            log_waited_ns=self._by_rank(waits[_LOGGED]) if len(waits) > _LOGGED else {},
            last_frac=dict(zip(self._order, share.tolist(), strict=True)),
            late=tuple(self._order[at] for at in late.rows),
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
        """Return how long ranks wait for others; `forward`: they meet in the forward pass too."""
        exchange = self.steps.table(self._exchanges)
        meetings = [exchange]
        if forward:  # with what follows: a rank that computes longer waits less
            meetings = [exchange + self.steps.named(f"{self._clock}/{Phase.FORWARD.value}")]
        if self._clock == "phase":  # a host that drives a GPU does not wait there for other ranks
            meetings += [self.steps.named(name) for name in _MEETINGS.values()]
        return np.array([one - one.min(axis=0) for one in meetings])

    def _causes(self, last: npt.NDArray[np.intp], *, but: Sequence[Phase]) -> dict[Phase, int]:
        found = {}
        for phase in Phase:
            values = None if phase in but else self._own(phase)
            if values is None:
                continue
            of_last = np.take_along_axis(values, last[None, :], axis=0)[0]
            more = float((of_last - np.median(values, axis=0)).mean())
            # The median of two is their middle: half of what one takes longer than the other.
            found[phase] = round(more * (2 if len(values) == 2 else 1))
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def _own(self, phase: Phase) -> Table | None:
        """Return a phase's time on each rank without waits for others; None if not measured."""
        if phase is Phase.BACKWARD:
            if not self._timed:
                return None
            name = f"{self._clock}/{phase.value}"
            return self.steps.named(name) - self.steps.table(self._exchanges)
        columns = [one.phase_ns(phase) for one in self.steps.sessions]
        if any(column is None for column in columns):
            return None
        own = self.steps.table(columns, before=phase in _AFTER)
        if phase in _MEETINGS:
            own -= self.steps.named(_MEETINGS[phase], before=True)
        return own

    def _part(self, late: int, causes: Mapping[Phase, int]) -> str | None:
        """Return the named part that makes up most of the first cause on a rank."""
        phase = next(iter(causes), None)
        if phase is None or phase is Phase.BACKWARD:
            return None
        prefix = f"part/{phase.value}/"
        more = {}
        for name in self.steps.sessions[late].columns:
            if name.startswith(prefix) and name not in _MEETINGS.values():
                means = self.steps.named(name).mean(axis=1)
                more[name] = means[late] - np.median(np.delete(means, late))
        most = max(more, key=lambda one: more[one], default="")
        return most.removeprefix(prefix) if most and more[most] >= causes[phase] / 2 else None


class _Late(NamedTuple):
    rows: list[int]
    costs_ns: float
    usual_ns: float


def _late(waits: _Waits) -> _Late:
    """Return the ranks that are late, their cost, and the usual cost of another rank."""
    mean = waits.sum(axis=0).mean(axis=1)
    late = [int(mean.argmin())]
    together = np.flatnonzero(mean < np.median(mean) / 2).tolist()
    if 1 < len(together) <= len(mean) / 2 and _gain(waits, late) < _gain(waits, together) / 2:
        late = together
    others = [at for at in range(len(mean)) if at not in late]
    usual = [_gain(waits, [at]) for at in others[:4]]
    return _Late(late, _gain(waits, late), float(np.mean(usual)))


def _gain(waits: _Waits, ranks: Sequence[int]) -> float:
    """Return the least mean wait of the others: by so much these ranks alone are late."""
    return float(np.delete(waits, ranks, axis=1).min(axis=1).sum(axis=0).mean())
