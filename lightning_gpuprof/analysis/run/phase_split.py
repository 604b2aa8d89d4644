"""Where the time goes: by phase, and within a phase by callback, logger and region."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.every_step import UntimedPhases, timed_in_every_step
from lightning_gpuprof.analysis.run.steady import EARLY, error_of_mean_frac, median
from lightning_gpuprof.analysis.run.step_kinds import Blocks, blocks_of
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan


@dataclass(frozen=True)
class PerStep:
    """The time of a phase or part per steady step."""

    median_ns: int
    """Over the timed steps."""
    mean_ns: int
    """Over all steps; the time in untimed steps is estimated (`UntimedPhases`)."""
    max_ns: int
    """Over the timed steps."""
    frac: float
    """The mean's share of the mean step."""
    early_ns: int
    """The median of the first `EARLY` steps, in or near which a trace is usually recorded."""
    active_frac: float
    """The share of the timed steps in which it took any time."""
    error_frac: float = 0.0
    """Half the 90% interval of the mean, as a share of it."""
    blocks: tuple[Blocks, ...] = ()
    """The timed steps in blocks, by which another run's mean is compared with this one."""


@dataclass(frozen=True)
class PhaseStats:
    """A phase's host time over the whole session.

    The totals of all phases add up to the session's wall time.
    """

    phase: Phase
    total_ns: int
    outside_ns: int
    """The part of the total that lies outside of steps."""
    frac: float
    """The share of the totals of all phases."""
    per_step: PerStep | None
    """None if no step was recorded."""


@dataclass(frozen=True)
class Part:
    """A named callback, logger or region within a phase; its figures are those of `PhaseStats`."""

    phase: Phase
    name: str
    total_ns: int
    outside_ns: int
    active_steps: int
    """How many recorded steps it took time in."""
    per_step: PerStep | None


def phase_split(untimed: UntimedPhases) -> dict[Phase, PhaseStats]:
    """Divide the session's wall time into phases; phases that were not measured are left out."""
    session = untimed.session
    outside = _outside_by(session, parts=False)
    measured = [phase for phase in Phase if phase.value in session.start.phases]
    columns = {phase: session.phase_ns(phase) for phase in measured}
    totals = {
        phase: _in_steps(phase.value, columns[phase], untimed) + outside.get(phase.value, 0)
        for phase in measured
    }
    whole = max(1, sum(totals.values()))
    return {
        phase: PhaseStats(
            phase=phase,
            total_ns=totals[phase],
            outside_ns=outside.get(phase.value, 0),
            frac=totals[phase] / whole,
            per_step=_per_step(phase.value, columns[phase], untimed),
        )
        for phase in measured
    }


def part_split(untimed: UntimedPhases) -> tuple[Part, ...]:
    """Return the named parts of all phases, those with the longest total first."""
    session = untimed.session
    outside = _outside_by(session, parts=True)
    columns = part_columns(session)
    parts = []
    for key in dict.fromkeys([*columns, *outside]):
        phase, _, name = key.partition("/")
        if phase not in session.start.phases:
            continue
        column = columns.get(key)
        parts.append(
            Part(
                phase=Phase(phase),
                name=name,
                total_ns=_in_steps(key, column, untimed) + outside.get(key, 0),
                outside_ns=outside.get(key, 0),
                active_steps=0 if column is None else int((column > 0).sum()),
                per_step=_per_step(key, column, untimed),
            )
        )
    return tuple(sorted(parts, key=lambda part: -part.total_ns))


def part_columns(session: Session) -> dict[str, Int64]:
    """Return the columns of named parts, by `<phase>/<name>`."""
    return {
        name.removeprefix("part/"): column
        for name, column in session.columns.items()
        if name.startswith("part/")
    }


def _per_step(key: str, column: Int64 | None, untimed: UntimedPhases) -> PerStep | None:
    """Return the figures of a phase or part; `key` is `<phase>` or `<phase>/<name>`."""
    session, steady = untimed.session, untimed.steady
    if column is None or not session.steps:
        return None
    chosen = column[steady]
    untimed_ns = untimed.estimated_ns(key, column)
    if timed_in_every_step(key):
        untimed_ns += sum(_times(span, parts="/" in key).get(key, 0) for span in untimed.spans)
    total_ns = int(chosen.sum()) + untimed_ns
    steps_ns = int(session.columns["dur_ns"][steady].sum()) + untimed.dur_ns
    return PerStep(
        median_ns=median(chosen),
        mean_ns=round(total_ns / (len(chosen) + untimed.steps)),
        max_ns=int(chosen.max()),
        frac=total_ns / max(1, steps_ns),
        early_ns=median(chosen[:EARLY]),
        active_frac=float((chosen > 0).mean()),
        error_frac=error_of_mean_frac(chosen),
        blocks=blocks_of(chosen, untimed.kinds),
    )


def _times(span: OutsideSpan, *, parts: bool) -> dict[str, int]:
    """Return a span's time by phase, or by `<phase>/<name>` of its parts."""
    return span.part_ns if parts else span.phase_ns


def _outside_by(session: Session, *, parts: bool) -> dict[str, int]:
    """Sum up the time outside of timed steps by phase or part, as far as it was timed."""
    totals: dict[str, int] = {}
    for span in session.all(OutsideSpan):
        for name, ns in _times(span, parts=parts).items():
            # `UntimedPhases` estimates the other phases of untimed steps.
            if span.where != UNTIMED_STEPS or timed_in_every_step(name):
                totals[name] = totals.get(name, 0) + ns
    return totals


def _in_steps(key: str, column: Int64 | None, untimed: UntimedPhases) -> int:
    return 0 if column is None else int(column.sum()) + untimed.estimated_ns(key, column)
