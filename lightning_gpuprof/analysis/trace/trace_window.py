"""The profiler's steps, and parts of a trace: one step, or the steady-state steps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.analysis.trace.linked_trace import Launches, LinkedTrace, link
from lightning_gpuprof.analysis.trace.step_marks import (
    is_step,
    marks_of,
    processes,
    step_events,
    usual_steps,
)
from lightning_gpuprof.analysis.trace.time_split import (
    DeviceSpans,
    cut,
    device_spans,
    split_windows,
)
from lightning_gpuprof.analysis.trace_tables import StepRow, TimeSplit, TraceWindow
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.timeline import Timeline, select

MOST_NAMES = 20
"""The most steps that a message names."""


def trace_steps(
    timeline: Timeline, launches: Launches, spans: Sequence[DeviceSpans]
) -> tuple[StepRow, ...]:
    """Return the steps in order, each with the time of the first device of its process.

    That time is cut at the step's borders on the host.
    """
    marks, usual = step_events(timeline), usual_steps(timeline)
    splits: list[TimeSplit | None] = [None] * len(marks)
    ranks: list[str | None] = [None] * len(marks)
    rank_of = {device.id: device.rank for device in timeline.devices}
    for device_span in reversed(spans):
        rows = np.flatnonzero(marks_of(timeline, launches, marks, device_span.device))
        own = split_windows(device_span, marks.start_ns[rows], marks.end_ns[rows])
        for row, split in zip(rows.tolist(), own, strict=True):
            splits[row], ranks[row] = split, rank_of.get(device_span.device)
    passed, steps = Counter[int](), []
    for row, thread in enumerate(marks.thread.tolist()):
        steps.append(
            StepRow(
                name=timeline.names[marks.name[row]],
                start_ns=int(marks.start_ns[row]),
                dur_ns=int(marks.dur_ns[row]),
                gpu=splits[row],
                distorted=not usual[row],
                rank=ranks[row],
                number=passed[thread],
            )
        )
        passed[thread] += 1
    return tuple(steps)


def step_window(timeline: Timeline, number: int) -> TraceWindow:
    """Return the borders of `ProfilerStep#number`, or of the call of the model with this number."""
    steps = step_events(timeline)
    names = [timeline.names[name] for name in steps.name.tolist()]
    by_profiler = any(map(is_step, names))
    for index, name in enumerate(names):
        if name.endswith(f"#{number}") if by_profiler else index == number:
            return TraceWindow(name, int(steps.start_ns[index]), int(steps.end_ns[index]))
    known = ", ".join(names[:MOST_NAMES]) or "none, since no profiler step was marked"
    more = f", and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    raise TraceError(f"The trace has no step {number}. Its steps are: {known}{more}.")


def steady_window(timeline: Timeline) -> TraceWindow:
    """Return the borders of all steps but the first, which pays for the profiler's start."""
    steps = step_events(timeline)
    if len(steps) < 2:
        raise TraceError(
            f"The trace has {len(steps)} marked steps, and the steady state leaves out the first. "
            "Record at least two steps, or analyse the whole trace."
        )
    of_step = processes(timeline)[steps.thread]
    by_process = [steps.start_ns[of_step == process] for process in distinct(of_step).tolist()]
    second = max((int(starts[1]) for starts in by_process if len(starts) > 1), default=0)
    return TraceWindow("steady state", second, int(steps.end_ns.max()))


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
    joined, queued = launches.call >= 0, queued_before(timeline, launches)
    called = np.where(joined, timeline.host.start_ns[launches.call], marks.end_ns.max())
    cut_spans = []
    for device_span in spans:
        here, windows = device.device == device_span.device, []
        process = np.flatnonzero(marks_of(timeline, launches, marks, device_span.device))
        at = np.flatnonzero(usual[process])
        for group in np.split(at, np.flatnonzero(np.diff(at) > 1) + 1):
            rows = process[group]
            begin_ns, end_ns = int(marks.start_ns[rows].min()), int(marks.end_ns[rows].max())
            before = here & (queued | (called < begin_ns))
            own = here & joined & ~before & (called <= end_ns)
            begun = int(device.end_ns[before].max(initial=begin_ns))
            windows.append((begun, int(device.end_ns[own].max(initial=max(begun, end_ns)))))
        cut_spans.append(cut(device_span, *windows))
    return cut_spans


def usual_marks(trace: LinkedTrace, device: int) -> int:
    """Return how many usual steps the processes of a device marked."""
    timeline, marks = trace.timeline, step_events(trace.timeline)
    own = marks_of(timeline, trace.launches, marks, device)
    return int((own & usual_steps(timeline)).sum())
