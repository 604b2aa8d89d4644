"""Where the time goes: by phase, and within a phase by callback, logger and region."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.distribution import mean, median
from lightning_gpuprof.analysis.run.every_step import IN_EVERY_STEP, unmarked_spans
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import OutsideSpan

EARLY = 30
"""Steps enough for a median, and few enough that what grows has hardly grown in them."""


@dataclass(frozen=True)
class PerStep:
    """A time per steady step; `frac` is the mean's share of the mean step.

    `early_ns` is the median of the first `EARLY` of them, near which the first trace is taken.
    """

    median_ns: int
    mean_ns: int
    max_ns: int
    frac: float
    early_ns: int


@dataclass(frozen=True)
class PhaseStats:
    """One phase's host time.

    `total_ns` is over the whole session, in steps and outside of them, so that the phases'
    totals add up to its wall time; `frac` is the share of that sum. `per_step` is absent
    where no step was recorded. Where one step in many is marked, totals are estimates: see
    `unmarked_per_marked`.
    """

    phase: Phase
    total_ns: int
    outside_ns: int
    frac: float
    per_step: PerStep | None


@dataclass(frozen=True)
class Part:
    """A named callback, logger or region inside a phase; figures as in `PhaseStats`.

    `per_step` is also absent for a part that never ran inside a step.
    """

    phase: Phase
    name: str
    total_ns: int
    outside_ns: int
    active_steps: int
    """Recorded steps in which it took any time."""
    per_step: PerStep | None


def phase_split(session: Session, steady: Mask) -> dict[Phase, PhaseStats]:
    """Split the session's wall time by phase; phases that were not measured are left out."""
    outside = _outside_by(session, "phase_ns")
    measured = [phase for phase in Phase if phase.value in session.start.phases]
    columns = {phase: session.phase_ns(phase) for phase in measured}
    in_steps = {phase: _total(columns[phase]) for phase in measured}
    per_marked = unmarked_per_marked(session)
    totals = {
        phase: _of_all(phase, ns, per_marked) + outside.get(phase.value, 0)
        for phase, ns in in_steps.items()
    }
    whole = max(1, sum(totals.values()))
    return {
        phase: PhaseStats(
            phase=phase,
            total_ns=totals[phase],
            outside_ns=outside.get(phase.value, 0),
            frac=totals[phase] / whole,
            per_step=_per_step(session, columns[phase], steady),
        )
        for phase in measured
    }


def part_split(session: Session, steady: Mask) -> tuple[Part, ...]:
    """List every named part of a phase, the longest in total first."""
    outside = _outside_by(session, "part_ns")
    per_marked = unmarked_per_marked(session)
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
                total_ns=_of_all(Phase(phase), _total(column), per_marked) + outside.get(key, 0),
                outside_ns=outside.get(key, 0),
                active_steps=0 if column is None else int((column > 0).sum()),
                per_step=_per_step(session, column, steady),
            )
        )
    return tuple(sorted(parts, key=lambda part: -part.total_ns))


def _of_all(phase: Phase, marked_ns: int, per_marked: float) -> int:
    return marked_ns if phase in IN_EVERY_STEP else round(marked_ns * (1 + per_marked))


def unmarked_per_marked(session: Session) -> float:
    """Return what steps that were not marked took per ns of the marked ones; 0 without such.

    Where one step in many is marked, the others' time is known as a whole, and by phase what
    validation, checkpoints and loggers took. For totals the rest is taken to be spread as in the
    marked steps, a sample of them.
    """
    spans = unmarked_spans(session)
    rest = sum(span.dur_ns - sum(span.phase_ns.values()) for span in spans)
    phases = [phase for phase in Phase if phase not in IN_EVERY_STEP]
    marked = sum(_total(session.phase_ns(phase)) for phase in phases)
    return rest / marked if marked else 0.0


def part_columns(session: Session) -> dict[str, Int64]:
    """Return the columns of named parts by `<phase>/<name>`."""
    return {
        name.removeprefix("part/"): column
        for name, column in session.columns.items()
        if name.startswith("part/")
    }


def _per_step(session: Session, column: Int64 | None, steady: Mask) -> PerStep | None:
    if column is None or not session.steps:
        return None
    chosen = column[steady]
    step_ns = max(1, int(session.columns["dur_ns"][steady].sum()))
    return PerStep(
        median_ns=median(chosen),
        mean_ns=mean(chosen),
        max_ns=int(chosen.max()),
        frac=int(chosen.sum()) / step_ns,
        early_ns=median(chosen[:EARLY]),
    )


def _outside_by(session: Session, field: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for span in session.all(OutsideSpan):
        for name, ns in getattr(span, field).items():
            totals[name] = totals.get(name, 0) + ns
    return totals


def _total(column: Int64 | None) -> int:
    return 0 if column is None else int(column.sum())
