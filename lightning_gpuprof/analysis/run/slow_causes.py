"""What changed with a slow-down: the line that takes longer, and the counters of the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.analysis.run.circumstances import circumstances
from lightning_gpuprof.analysis.run.every_step import UntimedPhases
from lightning_gpuprof.analysis.run.line_samples import COLLECTS, LineTime, times_at_lines
from lightning_gpuprof.analysis.run.phase_split import phase_split
from lightning_gpuprof.analysis.run.slow_downs import costliest, spans_around
from lightning_gpuprof.analysis.run.steady import steady_steps
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import SlowDown
from lightning_gpuprof.records.lines import HostLines
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.span import StepSpan, steps_in

LEAST_SAMPLES = 3
"""A line needs so many samples since a slow-down began: one or two come by chance."""
LEAST_PART = 0.3
"""A line is named if it takes this share of a slow-down, or more."""
RATIO = 1.5
"""A circumstance has changed if it is by this factor larger or smaller than before."""
LEAST_CHANGE = {"_frac": 0.02, "_bytes": 64e6, "_count": 1.0, "_ns": 1_000.0}
"""Smaller changes are left out, by the unit at the end of the name."""
NEAR_STEPS = 20
"""An epoch begins with a slow-down if it begins within so many steps of its first step."""


@dataclass(frozen=True)
class SlowDownCause:
    """The slow-down of a run that has cost most, with what else changed at its first step.

    Args:
        slow_down: The slow-down.
        line: The sampled line of its phase that takes longer; None if none is known.
        line_before_ns: What that line took per step before, by its samples.
        line_during_ns: What it takes per step since then.
        changed: Circumstances before and during, by name; the name ends in the unit.
        epoch: The epoch that begins with it; None if none does.
    """

    slow_down: SlowDown
    line: LineTime | None = None
    line_before_ns: int = 0
    line_during_ns: int = 0
    changed: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    epoch: int | None = None


def slow_down_cause(session: Session, slow_downs: tuple[SlowDown, ...]) -> SlowDownCause | None:
    """Return the costliest slow-down of a session and what changed; None if there is none."""
    numbers = session.step_numbers
    slow_down = costliest(slow_downs, int(numbers[-1]) if len(numbers) else 0)
    if slow_down is None:
        return None
    parts = _parts(session, spans_around(slow_down, slow_downs))
    line, before_ns, during_ns = _line(parts, slow_down)
    return SlowDownCause(
        slow_down,
        line,
        before_ns,
        during_ns,
        _changed(parts),
        _epoch(session, slow_down.since_step),
    )


def _line(
    parts: tuple[Session, Session] | None, slow_down: SlowDown
) -> tuple[LineTime | None, int, int]:
    """Return the line of the phase whose time has grown most, with its time before and during."""
    if slow_down.phase is None or parts is None:
        return None, 0, 0
    if slow_down.phase == Phase.GARBAGE_COLLECTION.value:
        return _collecting_line(parts[1]), 0, 0
    before, during = (_times(part, (Phase(slow_down.phase),)) for part in parts)
    more_ns = _mean_ns(parts[1]) - _mean_ns(parts[0])
    lines = [
        (line, before.get(place)) for place, line in during.items() if line.count >= LEAST_SAMPLES
    ]
    if not lines:
        return None, 0, 0
    line, earlier = max(lines, key=lambda pair: _sureness(*pair))
    before_ns = 0 if earlier is None else earlier.mean_ns
    is_large = line.mean_ns - before_ns >= LEAST_PART * more_ns
    return (line, before_ns, line.mean_ns) if is_large else (None, 0, 0)


def _sureness(line: LineTime, before: LineTime | None) -> float:
    """Return by how much a line takes longer, in widths of the intervals of its times.

    A line that many samples fall to varies by more than all that a new line takes.
    """
    more_ns = line.mean_ns - (0 if before is None else before.mean_ns)
    before_width = 0 if before is None else before.high_ns - before.low_ns
    return more_ns / max(1, line.high_ns - line.low_ns + before_width)


def _collecting_line(part: Session) -> LineTime | None:
    """Return the line that calls the garbage collector.

    A thread is not sampled in a collection, but right after it, which is in another phase.
    """
    lines = [line for line in _times(part, tuple(Phase)).values() if COLLECTS in line.source]
    return max(lines, key=lambda line: line.count, default=None)


def _times(part: Session, phases: Sequence[Phase]) -> dict[tuple[str, int], LineTime]:
    """Return the time per step at the sampled lines of some phases."""
    lines = part.last(HostLines)
    if lines is None:
        return {}
    split = phase_split(UntimedPhases(part, steady_steps(part)))
    per_step = {phase: split[phase].per_step for phase in phases if phase in split}
    times = times_at_lines(lines, per_step, max(1, round(_mean_ns(part))), least=1)
    return {(line.file, line.line): line for line in times}


def _mean_ns(part: Session) -> float:
    return float(part.columns["dur_ns"].mean())


def _parts(
    session: Session, spans: tuple[StepSpan, StepSpan] | None
) -> tuple[Session, Session] | None:
    """Return the session's steps before a slow-down and those during it."""
    try:
        return None if spans is None else (steps_in(session, spans[0]), steps_in(session, spans[1]))
    except RecordError:
        return None


def _changed(parts: tuple[Session, Session] | None) -> dict[str, tuple[float, float]]:
    if parts is None:
        return {}
    before, during = (circumstances(part, steady_steps(part)) for part in parts)
    return {
        name: (before[name], during[name])
        for name in before
        if name in during and _differs(name, before[name], during[name])
    }


def _differs(name: str, before: float, during: float) -> bool:
    unit = next((unit for unit in LEAST_CHANGE if name.endswith(unit)), "_count")
    low, high = sorted((before, during))
    return high - low >= LEAST_CHANGE[unit] and high >= RATIO * low


def _epoch(session: Session, since_step: int) -> int | None:
    """Return the epoch, from 1 on, that begins within some steps of a step."""
    steps, epochs = session.columns.get("step"), session.columns.get("epoch")
    if steps is None or epochs is None:
        return None
    begins = np.flatnonzero(np.diff(epochs) > 0) + 1
    near = begins[np.abs(steps[begins] - since_step) <= NEAR_STEPS]
    return int(epochs[near[0]]) if len(near) else None
