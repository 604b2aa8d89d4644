"""The slowest steps, and the phase and part that made them slow."""

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
"""How many steps are described."""
MOSTLY = 0.5
"""A part is named if it has at least this share of the phase's excess over its median."""


@dataclass(frozen=True)
class SlowStep:
    """A slow step, with the phase and the named part that exceeded their medians most."""

    step: int
    epoch: int | None
    start_ns: int
    dur_ns: int
    excess_ns: int
    """By how much it exceeds the median step."""
    flags: tuple[str, ...]
    phase: Phase | None
    """None if no phase exceeded its median."""
    phase_excess_ns: int | None
    part: str | None
    """None if no part made up most of the phase's excess."""
    part_excess_ns: int | None


def slowest_steps(
    session: Session,
    steady: Mask,
    phases: Mapping[Phase, PhaseStats],
    parts: Sequence[Part],
) -> tuple[SlowStep, ...]:
    """Return the slowest steps, the slowest first."""
    if not session.steps:
        return ()
    dur, flags = session.columns["dur_ns"], step_flags(session)
    typical = median(dur[steady])
    candidates = np.flatnonzero(((flags & _APART) == 0) & (dur > typical))
    slow = candidates[np.argsort(-dur[candidates], kind="stable")][:MOST]
    columns = {phase.value: column for phase, column in session.phases_ns(Phase).items()}
    medians = {
        phase.value: stats.per_step.median_ns for phase, stats in phases.items() if stats.per_step
    }
    medians |= {
        f"{part.phase.value}/{part.name}": part.per_step.median_ns
        for part in parts
        if part.per_step
    }
    by_part = part_columns(session)
    return tuple(
        _describe(session, int(index), typical, columns, by_part, medians) for index in slow
    )


def _describe(
    session: Session,
    index: int,
    typical: int,
    phases: dict[str, Int64],
    parts: dict[str, Int64],
    medians: dict[str, int],
) -> SlowStep:
    columns = session.columns
    phase, phase_excess = _most_above(phases, medians, index)
    of_phase = {name: column for name, column in parts.items() if name.split("/")[0] == phase}
    part, part_excess = _most_above(of_phase, medians, index)
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
    """Return the column that exceeds its median most in a step, and by how much."""
    excess = {name: int(column[index]) - medians[name] for name, column in columns.items()}
    name = max(excess, key=lambda name: excess[name], default=None)
    return (None, None) if name is None or excess[name] <= 0 else (name, excess[name])
