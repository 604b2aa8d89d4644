"""What the chart of steps marks on the time line: slow-downs and captures."""

from typing import Literal

from msgspec import Struct

from lightning_gpuprof.analysis.run.slow_downs import captures, slow_downs, spans_around
from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown, SlowDownShape
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.span import StepSpan
from lightning_gpuprof.report.labels import phase_label
from lightning_gpuprof.report.run.slow_downs import REASONS, pattern
from lightning_gpuprof.units import duration

MOST_MARKS = 20
"""The newest slow-downs and captures that are marked."""


class SlowDownMark(Struct, frozen=True):
    """A slow-down as a line over the chart of steps.

    Args:
        label: What it is, in a sentence.
        shape: step, ramp or spikes.
        since_step: Its first step.
        until_step: Its last step; None while it lasts.
        steps: The points of the line by step.
        level_ns: The same points by the time of a step: its usual level before and during, which a
            ramp reaches at the last point; of spikes their height.
    """

    label: str
    shape: Literal["step", "ramp", "spikes"]
    since_step: int
    until_step: int | None
    steps: tuple[int, ...]
    level_ns: tuple[int, ...]


class CaptureMark(Struct, frozen=True):
    """A capture, from its first recorded step to its last.

    Without a profiler window, both are the step at which it began.
    """

    label: str
    by_request: bool
    first_step: int
    last_step: int
    trace_file: str
    """Empty if there is no trace."""


class StepMarks(Struct, frozen=True):
    """What happened to the pace of a run, at most `MOST_MARKS` of either."""

    slow_downs: tuple[SlowDownMark, ...] = ()
    captures: tuple[CaptureMark, ...] = ()


def step_marks(session: Session, last_step: int) -> StepMarks:
    """Return the marks of a session that has recorded steps up to `last_step`."""
    recorded = slow_downs(session)
    marks = tuple(
        _slow_down(slow_down, spans_around(slow_down, recorded), last_step)
        for slow_down in recorded[-MOST_MARKS:]
    )
    made = tuple(_capture(capture) for capture in captures(session)[-MOST_MARKS:])
    return StepMarks(marks, made)


def _slow_down(
    slow_down: SlowDown, spans: tuple[StepSpan, StepSpan] | None, last_step: int
) -> SlowDownMark:
    since, until = slow_down.since_step, slow_down.until_step
    end = max(since, last_step if until is None else until)
    begin = since if spans is None else spans[0].first
    before_ns, during_ns = slow_down.before_ns, slow_down.during_ns
    steps: tuple[int, ...]
    level_ns: tuple[int, ...]
    if slow_down.shape is SlowDownShape.SPIKES:
        high_ns = before_ns + (slow_down.height_ns or 0)
        steps, level_ns = (since, end), (high_ns, high_ns)
    elif slow_down.shape is SlowDownShape.RAMP:
        steps, level_ns = (begin, since, end), (before_ns, before_ns, during_ns)
    else:
        steps = (begin, since, since, end)
        level_ns = (before_ns, before_ns, during_ns, during_ns)
    return SlowDownMark(_label(slow_down), slow_down.shape.value, since, until, steps, level_ns)


def _label(slow_down: SlowDown) -> str:
    where = "" if slow_down.phase is None else f" in {phase_label(slow_down.phase).lower()}"
    until = "" if slow_down.until_step is None else f" to {slow_down.until_step:,}"
    how = pattern(slow_down)
    if how is None:
        how = f"{duration(slow_down.during_ns)} instead of {duration(slow_down.before_ns)}"
    return f"slower from step {slow_down.since_step:,}{until}{where}: {how}"


def _capture(capture: Capture) -> CaptureMark:
    first = capture.step if capture.first_step is None else capture.first_step
    last = first if capture.last_step is None else capture.last_step
    steps = f"steps {first:,} to {last:,}" if last > first else f"step {first:,}"
    label = f"capture {capture.number} because of {REASONS[capture.why]}, {steps}"
    by_request = capture.why is CaptureReason.REQUEST
    return CaptureMark(label, by_request, first, last, capture.trace_file)
