"""The sessions of a record file, their wall time, and what ran in profiler windows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase
from lightning_gpuprof.records.reader import RankRecords, Session
from lightning_gpuprof.records.schema import OutsideSpan, ProfilerCycle

OTHERS = (Phase.VALIDATION, Phase.CHECKPOINT, Phase.CALLBACKS)
"""Phases that a profiler window may hold beside the training steps."""
MIN_FRAC = 0.01
"""Phases with a smaller share of the window are left out."""
_OWN = [f"{Phase.CALLBACKS.value}/{name}" for name in OWN_CALLBACKS]


@dataclass(frozen=True)
class SessionView:
    """A summary of a call of fit, validate, test or predict."""

    session: int
    stage: str
    started_unix_ns: int
    steps: int
    status: str
    """finished, exception or interrupted; "open" without a closing record (live or killed)."""


def session_views(records: RankRecords) -> tuple[SessionView, ...]:
    """Summarize the sessions of a rank, in the order in which they ran."""
    return tuple(
        SessionView(
            session=session.start.session,
            stage=session.start.stage,
            started_unix_ns=session.start.started_unix_ns,
            steps=session.recorded_steps,
            status="open" if session.end is None else session.end.status,
        )
        for session in records.sessions
    )


def choose_session(records: RankRecords, number: int | None) -> Session:
    """Return the session of a number; by default the last fit that recorded steps.

    If no fit recorded a step, it is the last fit; without any fit, the last session.

    Raises:
        RecordError: There is no session of this number.
    """
    if number is None:
        fits = [session for session in records.sessions if session.start.stage == "fit"]
        stepped = [session for session in fits if session.steps]
        return (stepped or fits or list(records.sessions))[-1]
    for session in reversed(records.sessions):
        if session.start.session == number:
            return session
    available = ", ".join(f"{s.start.session} ({s.start.stage})" for s in records.sessions)
    raise RecordError(f"There is no session {number} in this run. It has: {available}.")


def same_session(ranks: Mapping[int, RankRecords], number: int) -> dict[int, Session]:
    """Return the session of a number on every rank that has it."""
    by_rank = {
        rank: [session for session in records.sessions if session.start.session == number]
        for rank, records in ranks.items()
    }
    return {rank: sessions[-1] for rank, sessions in by_rank.items() if sessions}


@dataclass(frozen=True)
class OutsideTime:
    """All spans of a kind that belong to no step, such as every `epoch_end`."""

    where: str
    count: int
    total_ns: int
    max_ns: int
    phase_ns: dict[str, int]
    part_ns: dict[str, int]


@dataclass(frozen=True)
class WallTime:
    """The session's wall time and the sum of the time that was recorded.

    If the session has no closing record (live or killed), its wall time ends with its last step
    or span.
    """

    wall_ns: int
    steps_ns: int
    outside_ns: int

    @property
    def accounted_ns(self) -> int:
        """The sum of all steps and all spans outside of steps."""
        return self.steps_ns + self.outside_ns

    @property
    def accounted_frac(self) -> float:
        """The recorded share of the wall time; 1 if nothing is missing or counted twice."""
        return self.accounted_ns / self.wall_ns if self.wall_ns else 1.0


def wall_time(session: Session) -> WallTime:
    """Compare the recorded time with the session's own clock."""
    spans = session.all(OutsideSpan)
    last_ns = max((span.start_ns + span.dur_ns for span in spans), default=0)
    steps_ns = 0
    if session.steps:
        steps_ns = int(session.columns["dur_ns"].sum())
        ends = session.columns["start_ns"] + session.columns["dur_ns"]
        last_ns = max(last_ns, int(ends[-1]))
    end = session.end
    return WallTime(
        wall_ns=last_ns if end is None else end.wall_ns,
        steps_ns=steps_ns,
        outside_ns=sum(span.dur_ns for span in spans),
    )


def outside_time(session: Session) -> tuple[OutsideTime, ...]:
    """Sum up the spans outside of steps by kind, in the order in which the kinds first occurred."""
    kinds: dict[str, list[OutsideSpan]] = {}
    for span in session.all(OutsideSpan):
        kinds.setdefault(span.where, []).append(span)
    return tuple(
        OutsideTime(
            where=where,
            count=len(spans),
            total_ns=sum(span.dur_ns for span in spans),
            max_ns=max(span.dur_ns for span in spans),
            phase_ns=_summed(span.phase_ns for span in spans),
            part_ns=_summed(span.part_ns for span in spans),
        )
        for where, spans in kinds.items()
    )


def _summed(times: Iterable[dict[str, int]]) -> dict[str, int]:
    """Add up times by name, the largest total first."""
    totals = Counter[str]()
    for by_name in times:
        totals.update(by_name)
    return dict(totals.most_common())


def others_ns(session: Session, cycle: ProfilerCycle) -> dict[Phase, int]:
    """Return the time of `OTHERS` between a cycle's first and last step, without small shares."""
    columns = session.columns
    if "step" not in columns:
        return {}
    inside = (columns["step"] >= cycle.first_step) & (columns["step"] <= cycle.last_step)
    if not inside.any():
        return {}
    start, dur = columns["start_ns"][inside], columns["dur_ns"][inside]
    begin_ns, end_ns = int(start[0]), int(start[-1] + dur[-1])
    spans = [
        span
        for span in session.all(OutsideSpan)
        if not span.steps and begin_ns <= span.start_ns < end_ns
    ]

    def spent_ns(name: str) -> int:
        by_step = [columns.get(f"phase/{name}"), columns.get(f"part/{name}")]
        in_steps_ns = sum(int(column[inside].sum()) for column in by_step if column is not None)
        return in_steps_ns + sum(
            span.phase_ns.get(name, span.part_ns.get(name, 0)) for span in spans
        )

    spent = {phase: spent_ns(phase.value) for phase in OTHERS}
    spent[Phase.CALLBACKS] -= sum(map(spent_ns, _OWN))
    return {phase: ns for phase, ns in spent.items() if ns >= MIN_FRAC * (end_ns - begin_ns)}
