"""A part of a trace: one step, or the steady-state steps."""

from dataclasses import replace

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, link
from lightning_gpuprof.analysis.trace.trace_steps import step_events
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.traces.timeline import Timeline, select


class Window(Struct, frozen=True):
    """Borders on the host's clock, relative to the trace's origin, and what they enclose."""

    name: str
    start_ns: int
    end_ns: int


def step_window(timeline: Timeline, number: int) -> Window:
    """Return the borders of `ProfilerStep#number`.

    Raises:
        TraceError: The trace has no such step.
    """
    steps = step_events(timeline)
    names = [timeline.names[name] for name in steps.name.tolist()]
    for index, name in enumerate(names):
        if name.endswith(f"#{number}"):
            return Window(name, int(steps.start_ns[index]), int(steps.end_ns[index]))
    known = ", ".join(names) or "none, since no profiler step was marked"
    raise TraceError(f"The trace has no step {number}. Its steps are: {known}.")


def steady_window(timeline: Timeline) -> Window:
    """Return the borders of all steps but the first, which pays for the profiler's start.

    Raises:
        TraceError: The trace has fewer than two steps.
    """
    steps = step_events(timeline)
    if len(steps) < 2:
        raise TraceError(
            f"The trace has {len(steps)} marked steps, and the steady state leaves out the first. "
            "Record at least two steps, or analyse the whole trace."
        )
    return Window("steady state", int(steps.start_ns[1]), int(steps.end_ns.max()))


def launched_in(trace: LinkedTrace) -> Timeline:
    """Leave out what a device still had queued when the trace began.

    A device that is behind runs the steps before the first marked one while that is recorded, and
    what is divided by the marked steps must not hold them. It is what a device's queue runs
    without a launch in the trace before anything that has one; a queue without any launch at all
    is kept whole, since launches are then not recorded.
    """
    device, launched = trace.timeline.device, trace.launches.call >= 0
    orphans = ~launched
    if not orphans.any() or not launched.any() or not len(step_events(trace.timeline)):
        return trace.timeline
    kept = np.ones(len(device), dtype=np.bool_)
    for stream in np.unique(device.stream[orphans]).tolist():
        for index in np.unique(device.device[orphans & (device.stream == stream)]).tolist():
            queue = (device.stream == stream) & (device.device == index)
            if (queue & launched).any():
                first_ns = device.start_ns[queue & launched].min()
                kept &= ~(queue & orphans & (device.start_ns < first_ns))
    return replace(trace.timeline, device=select(device, kept))


def within(trace: LinkedTrace, window: Window) -> LinkedTrace:
    """Keep the host events that begin in a window and the device events launched by them.

    Device events without a known launch are kept by their own start.
    """
    host, device, call = trace.timeline.host, trace.timeline.device, trace.launches.call
    begun = device.start_ns
    if len(host):
        begun = np.where(call >= 0, host.start_ns[call], begun)
    kept = replace(
        trace.timeline,
        host=select(host, (host.start_ns >= window.start_ns) & (host.start_ns < window.end_ns)),
        device=select(device, (begun >= window.start_ns) & (begun < window.end_ns)),
    )
    return link(kept)
