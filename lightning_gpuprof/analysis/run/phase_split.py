"""Where the time goes: by phase, and within a phase by callback, logger and region."""

from dataclasses import dataclass

from lightning_gpuprof.analysis.run.every_step import Spread, timed_in_every_step
from lightning_gpuprof.analysis.run.steady import EARLY, error_of_mean_frac, median
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNMARKED_STEPS, OutsideSpan


@dataclass(frozen=True)
class PerStep:
    """A time per steady step; `frac` is the mean's share of the mean step.

    The mean is of all steps (`Spread`), median and maximum are of the marked ones. `early_ns` is
    the median of the first `EARLY`, near which a trace is usually taken; `active_frac` the share of
    steps in which it took any time; `error_frac` half the mean's 90 % interval, as a share of it.
    """

    median_ns: int
    mean_ns: int
    max_ns: int
    frac: float
    early_ns: int
    active_frac: float
    error_frac: float = 0.0


@dataclass(frozen=True)
class PhaseStats:
    """One phase's host time over the whole session; totals of all phases add up to its wall time.

    `frac` is the share of that sum; `per_step` is absent where no step was recorded.
    """

    phase: Phase
    total_ns: int
    outside_ns: int
    frac: float
    per_step: PerStep | None


@dataclass(frozen=True)
class Part:
    """A named callback, logger or region inside a phase; figures as in `PhaseStats`."""

    phase: Phase
    name: str
    total_ns: int
    outside_ns: int
    active_steps: int
    """Recorded steps in which it took any time."""
    per_step: PerStep | None


def phase_split(spread: Spread) -> dict[Phase, PhaseStats]:
    """Split the session's wall time by phase; phases that were not measured are left out."""
    session = spread.session
    outside = _outside_by(session, "phase_ns")
    measured = [phase for phase in Phase if phase.value in session.start.phases]
    columns = {phase: session.phase_ns(phase) for phase in measured}
    totals = {
        phase: _in_steps(phase.value, columns[phase], spread) + outside.get(phase.value, 0)
        for phase in measured
    }
    whole = max(1, sum(totals.values()))
    return {
        phase: PhaseStats(
            phase=phase,
            total_ns=totals[phase],
            outside_ns=outside.get(phase.value, 0),
            frac=totals[phase] / whole,
            per_step=_per_step(phase.value, columns[phase], spread),
        )
        for phase in measured
    }


def part_split(spread: Spread) -> tuple[Part, ...]:
    """List every named part of a phase, the longest in total first."""
    session = spread.session
    outside = _outside_by(session, "part_ns")
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
                total_ns=_in_steps(key, column, spread) + outside.get(key, 0),
                outside_ns=outside.get(key, 0),
                active_steps=0 if column is None else int((column > 0).sum()),
                per_step=_per_step(key, column, spread),
            )
        )
    return tuple(sorted(parts, key=lambda part: -part.total_ns))


def part_columns(session: Session) -> dict[str, Int64]:
    """Return the columns of named parts by `<phase>/<name>`."""
    return {
        name.removeprefix("part/"): column
        for name, column in session.columns.items()
        if name.startswith("part/")
    }


def _per_step(key: str, column: Int64 | None, spread: Spread) -> PerStep | None:
    """Return the figures of a phase or of a part; `key` is `<phase>` or `<phase>/<name>`."""
    session, steady = spread.session, spread.steady
    if column is None or not session.steps:
        return None
    chosen = column[steady]
    field = "part_ns" if "/" in key else "phase_ns"
    spans = spread.spans if timed_in_every_step(key) else []
    known = sum(getattr(span, field).get(key, 0) for span in spans)
    total_ns = int(chosen.sum()) + spread.of(key, column) + known
    steps_ns = int(session.columns["dur_ns"][steady].sum()) + spread.dur_ns
    return PerStep(
        median_ns=median(chosen),
        mean_ns=round(total_ns / (len(chosen) + spread.steps)),
        max_ns=int(chosen.max()),
        frac=total_ns / max(1, steps_ns),
        early_ns=median(chosen[:EARLY]),
        active_frac=float((chosen > 0).mean()),
        error_frac=error_of_mean_frac(chosen),
    )


def _outside_by(session: Session, field: str) -> dict[str, int]:
    """Sum up what lies outside of marked steps, where it is known as a whole."""
    totals: dict[str, int] = {}
    for span in session.all(OutsideSpan):
        for name, ns in getattr(span, field).items():
            # The rest of the steps without marks is in `Spread`.
            if span.where != UNMARKED_STEPS or timed_in_every_step(name):
                totals[name] = totals.get(name, 0) + ns
    return totals


def _in_steps(key: str, column: Int64 | None, spread: Spread) -> int:
    return 0 if column is None else int(column.sum()) + spread.of(key, column)
