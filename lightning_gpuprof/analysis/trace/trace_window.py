"""The profiler's steps, and parts of a trace: one step, or the steady-state steps."""

import re
from collections.abc import Sequence
from dataclasses import replace
from statistics import median_low

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.linked_trace import Launches, LinkedTrace, link
from lightning_gpuprof.analysis.trace.time_split import (
    DeviceSpans,
    cut,
    device_spans,
    split_windows,
)
from lightning_gpuprof.analysis.trace_tables import StepRow, TraceWindow
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.timeline import CATEGORY_ID, HostEvents, Timeline, select

_STEP = re.compile(r"ProfilerStep\s*#?\s*\d+$")


def is_step(name: str) -> bool:
    """Return whether a name is a profiler step's."""
    return _STEP.match(name) is not None


def step_events(timeline: Timeline) -> HostEvents:
    """Return the step marks, in order of time.

    torch writes them as annotations; releases before 2022 wrote them as operators.
    """
    host = timeline.host
    marks = named(timeline, is_step) & (host.category != CATEGORY_ID["python_function"])
    return select(host, marks)


def trace_steps(timeline: Timeline, spans: DeviceSpans | None) -> tuple[StepRow, ...]:
    """Return the steps in order; the device's time is cut at their borders on the host."""
    marks = step_events(timeline)
    splits = split_windows(spans, marks.start_ns, marks.end_ns) if spans else [None] * len(marks)
    names = [timeline.names[name] for name in marks.name.tolist()]
    times, distorted = (marks.start_ns.tolist(), marks.dur_ns.tolist()), ~usual_steps(timeline)
    return tuple(map(StepRow, names, *times, splits, distorted.tolist()))


def step_window(timeline: Timeline, number: int) -> TraceWindow:
    """Return the borders of `ProfilerStep#number`."""
    steps = step_events(timeline)
    names = [timeline.names[name] for name in steps.name.tolist()]
    for index, name in enumerate(names):
        if name.endswith(f"#{number}"):
            return TraceWindow(name, int(steps.start_ns[index]), int(steps.end_ns[index]))
    known = ", ".join(names) or "none, since no profiler step was marked"
    raise TraceError(f"The trace has no step {number}. Its steps are: {known}.")


def steady_window(timeline: Timeline) -> TraceWindow:
    """Return the borders of all steps but the first, which pays for the profiler's start."""
    steps = step_events(timeline)
    if len(steps) < 2:
        raise TraceError(
            f"The trace has {len(steps)} marked steps, and the steady state leaves out the first. "
            "Record at least two steps, or analyse the whole trace."
        )
    return TraceWindow("steady state", int(steps.start_ns[1]), int(steps.end_ns.max()))


def queued_before(timeline: Timeline, launches: Launches) -> Mask:
    """Return a mask of work that devices still had queued when a trace with step marks began.

    A device that is behind the host first runs work of earlier steps, which must not count for the
    marked steps. Such events have no launch, and come before the first event with a launch in their
    own queue or in the device's busiest queue. A queue without any launch is left as it is, because
    its launches were not recorded.
    """
    device, launched = timeline.device, launches.call >= 0
    before = np.zeros(len(device), dtype=np.bool_)
    orphans = ~launched
    if not orphans.any() or not launched.any() or not len(step_events(timeline)):
        return before
    for index in np.unique(device.device[launched]).tolist():
        here = device.device == index
        streams, counts = np.unique(device.stream[here & launched], return_counts=True)
        queues = [here & (device.stream == stream) for stream in streams.tolist()]
        first_ns = [int(device.start_ns[queue & launched].min()) for queue in queues]
        busiest_ns = first_ns[int(counts.argmax())]
        for queue, own_ns in zip(queues, first_ns, strict=True):
            before |= queue & orphans & (device.start_ns < min(own_ns, busiest_ns))
    return before


def spans_within(
    timeline: Timeline, launches: Launches, window: TraceWindow | None
) -> list[DeviceSpans]:
    """Return each device's spans in a window, or else from where its own work begins."""
    spans = device_spans(timeline)
    if window is not None:
        return [cut(device_span, (window.start_ns, window.end_ns)) for device_span in spans]
    before, device = queued_before(timeline, launches), timeline.device
    for number, device_span in enumerate(spans):
        here = device.device == device_span.device
        ends_ns = device.end_ns[here & before]
        if len(ends_ns):
            own = here & ~before & (device.end_ns > ends_ns.max())
            end_ns = int(device_span.windows.end[-1])
            begin_ns = max(device.start_ns[own].min(initial=end_ns), ends_ns.max())
            spans[number] = cut(device_span, (int(begin_ns), end_ns))
    return spans


def within(trace: LinkedTrace, window: TraceWindow) -> LinkedTrace:
    """Return the host events that begin in a window and the device events launched by them.

    Device events without a known launch are selected by their own start.
    """
    host, device, call = trace.timeline.host, trace.timeline.device, trace.launches.call
    begun = device.start_ns
    if len(host):
        begun = np.where(call >= 0, host.start_ns[call], begun)
    part = replace(
        trace.timeline,
        host=select(host, (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)),
        device=select(device, (begun >= window.start_ns) & (begun < window.end_ns)),
    )
    return link(part)


SLOW_STEP = 2
"""A step that takes so many times the median one is not a usual one."""


def usual_steps(timeline: Timeline) -> Mask:
    """Return which step marks are not far longer than the others; of two steps, both are.

    The profiler distorts some: it starts in one, and writes what it has collected in another.
    """
    dur = step_events(timeline).dur_ns.tolist()
    longest = SLOW_STEP * median_low(dur) if len(dur) > 2 else max(dur, default=0)
    return np.array([dur_ns <= longest for dur_ns in dur], dtype=np.bool_)


def over_steps(
    timeline: Timeline, launches: Launches, spans: Sequence[DeviceSpans]
) -> list[DeviceSpans]:
    """Give each device's spans the usual steps as windows, on the device.

    A window begins with a step, or when the device has done what was launched before it, and ends
    with a step, or when the device has done what was launched in it.
    """
    marks, usual, device = step_events(timeline), usual_steps(timeline), timeline.device
    if not len(marks):
        return list(spans)
    usual_rows = np.flatnonzero(usual)
    groups = np.split(usual_rows, np.flatnonzero(np.diff(usual_rows) > 1) + 1)
    joined, queued = launches.call >= 0, queued_before(timeline, launches)
    called = np.where(joined, timeline.host.start_ns[launches.call], marks.end_ns.max())
    cut_spans = []
    for device_span in spans:
        here, windows = device.device == device_span.device, []
        for rows in groups:
            begin_ns, end_ns = int(marks.start_ns[rows].min()), int(marks.end_ns[rows].max())
            before = here & (queued | (called < begin_ns))
            own = here & joined & ~before & (called <= end_ns)
            begun = int(device.end_ns[before].max(initial=begin_ns))
            windows.append((begun, int(device.end_ns[own].max(initial=max(begun, end_ns)))))
        cut_spans.append(cut(device_span, *windows))
    return cut_spans
