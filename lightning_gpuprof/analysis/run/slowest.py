"""The slowest steps, and what was different in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.run.phase_split import Part, PhaseStats, part_columns
from lightning_gpuprof.analysis.run.steady import median, step_flags
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import StepFlag

_APART = int(StepFlag.WARMUP | StepFlag.COMPILED | StepFlag.UNFINISHED)
MOST = 10
"""Steps that are named."""
MOSTLY = 0.5
"""Of what a phase took above its median: a part with less of it is not the reason."""


@dataclass(frozen=True)
class SlowStep:
    """One slow step: the phase (and named part) that exceeded its median most."""

    step: int
    epoch: int | None
    start_ns: int
    dur_ns: int
    excess_ns: int
    """Above the median step."""
    flags: tuple[str, ...]
    phase: Phase | None
    phase_excess_ns: int | None
    part: str | None
    part_excess_ns: int | None


def slowest_steps(
    session: Session,
    steady: Mask,
    phases: Mapping[Phase, PhaseStats],
    parts: Sequence[Part],
) -> tuple[SlowStep, ...]:
    """Return the slowest steps, slowest first."""
    if not session.steps:
        return ()
    dur, flags = session.columns["dur_ns"], step_flags(session)
    typical = median(dur[steady])
    candidates = np.flatnonzero(((flags & _APART) == 0) & (dur > typical))
    slow = candidates[np.argsort(-dur[candidates], kind="stable")][:MOST]
    columns = {phase.value: column for phase, column in session.phases_ns(Phase).items()}
    usual = {p.value: stats.per_step.median_ns for p, stats in phases.items() if stats.per_step}
    usual |= {f"{p.phase.value}/{p.name}": p.per_step.median_ns for p in parts if p.per_step}
    inside = part_columns(session)
    return tuple(_describe(session, int(i), typical, columns, inside, usual) for i in slow)


def _describe(
    session: Session,
    index: int,
    typical: int,
    phases: dict[str, Int64],
    parts: dict[str, Int64],
    usual: dict[str, int],
) -> SlowStep:
    columns = session.columns
    phase, phase_excess = _most_above(phases, usual, index)
    inside = {name: column for name, column in parts.items() if name.split("/")[0] == phase}
    part, part_excess = _most_above(inside, usual, index)
    if part_excess is not None and part_excess < MOSTLY * (phase_excess or 0):
        part = part_excess = None
    flags = StepFlag(int(step_flags(session)[index]))
    return SlowStep(
        step=int(columns["step"][index]) if "step" in columns else index,
        epoch=int(columns["epoch"][index]) if "epoch" in columns else None,
        start_ns=int(columns["start_ns"][index]),
        dur_ns=int(columns["dur_ns"][index]),
        excess_ns=int(columns["dur_ns"][index]) - typical,
        flags=tuple(str(flag.name).lower() for flag in StepFlag if flag in flags),
        phase=None if phase is None else Phase(phase),
        phase_excess_ns=phase_excess,
        part=None if part is None else part.partition("/")[2],
        part_excess_ns=part_excess,
    )


def _most_above(
    columns: dict[str, Int64], medians: dict[str, int], index: int
) -> tuple[str | None, int | None]:
    excess = {name: int(column[index]) - medians[name] for name, column in columns.items()}
    name = max(excess, key=lambda n: excess[n], default=None)
    return (None, None) if name is None or excess[name] <= 0 else (name, excess[name])
