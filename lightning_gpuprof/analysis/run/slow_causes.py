"""What changed with a slow-down: the line that takes longer, and the counters of the host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from lightning_gpuprof.analysis.run.circumstances import circumstances
from lightning_gpuprof.analysis.run.slow_downs import costliest, spans_around
from lightning_gpuprof.analysis.run.steady import steady_steps
from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import SlowDown
from lightning_gpuprof.records.lines import CapturedLines, HostLines, LineCount
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
"""An epoch, or a capture, begins with a slow-down if it begins within so many steps."""


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
    line: LineCount | None = None
    line_before_ns: int = 0
    line_during_ns: int = 0
    changed: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    epoch: int | None = None


def slow_down_cause(session: Session, slow_downs: tuple[SlowDown, ...]) -> SlowDownCause | None:
    """Return the costliest slow-down of a session and what changed; None if there is none."""
    slow_down = costliest(slow_downs, session.steps)
    if slow_down is None:
        return None
    line, before_ns, during_ns = _line(session, slow_down)
    return SlowDownCause(
        slow_down,
        line,
        before_ns,
        during_ns,
        _changed(session, spans_around(slow_down, slow_downs)),
        _epoch(session, slow_down.since_step),
    )


def _line(session: Session, slow_down: SlowDown) -> tuple[LineCount | None, int, int]:
    """Return the line of the phase whose time has grown most, with its time before and during.

    A line's share of all samples before, and of all since, is its share of a step.
    """
    if slow_down.phase is None:
        return None, 0, 0
    recorded = [lines for lines in (session.last(HostLines),) if lines is not None]
    recorded += [lines.host for lines in session.all(CapturedLines) if lines.host is not None]
    span = StepSpan(slow_down.since_step, slow_down.until_step)
    steps = [step for lines in recorded for step in lines.steps]
    whole_before = sum(1 for step in steps if step < span.first)
    whole_during = sum(1 for step in steps if step in span)
    if not whole_during:
        return None, 0, 0
    mean_before_ns, mean_during_ns = _means(session, span)
    lines = [line for each in recorded for line in each.of(Phase(slow_down.phase))]
    best: tuple[LineCount | None, int, int] = (None, 0, 0)
    for group in _by_place(lines):
        at = [step for line in group for step in line.steps]
        since = [step for step in at if step in span]
        if len(since) < LEAST_SAMPLES:
            continue
        before = sum(1 for step in at if step < span.first)
        before_ns = round(mean_before_ns * before / max(1, whole_before))
        during_ns = round(mean_during_ns * len(since) / whole_during)
        if during_ns - before_ns > best[2] - best[1]:
            best = group[0], before_ns, during_ns
    more_ns = mean_during_ns - mean_before_ns
    return best if best[2] - best[1] >= LEAST_PART * more_ns else (None, 0, 0)


def _by_place(lines: Sequence[LineCount]) -> list[list[LineCount]]:
    groups: dict[tuple[str, int], list[LineCount]] = {}
    for line in lines:
        groups.setdefault((line.file, line.line), []).append(line)
    return [sorted(group, key=lambda line: -line.count) for group in groups.values()]


def _means(session: Session, span: StepSpan) -> tuple[float, float]:
    """Return the mean step before a span and in it."""
    steps = session.columns.get("step", np.arange(session.steps))
    dur_ns = session.columns["dur_ns"]
    inside = steps >= span.first
    if span.last is not None:
        inside &= steps <= span.last
    before = steps < span.first
    means = [float(dur_ns[which].mean()) if which.any() else 0.0 for which in (before, inside)]
    return means[0], means[1]


def _changed(
    session: Session, spans: tuple[StepSpan, StepSpan] | None
) -> dict[str, tuple[float, float]]:
    if spans is None:
        return {}
    try:
        parts = [steps_in(session, span) for span in spans]
    except RecordError:
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
