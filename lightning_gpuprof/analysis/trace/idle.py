"""Why a device was idle: every nanosecond of its gaps has one cause.

A gap is time in which none of the device's streams runs anything, between the borders of the marked
steps, or without such marks between its first event and its last. The event that ends a gap shows
why it lasted: where its launching call began after the gap did, the host was late, and what the
launching thread did meanwhile is the cause up to the call; from the call's start to the event's
start it is launch latency. Where the call began before the gap, the work was queued and the
device had not started it: a short gap between two events of one stream is the device's own
(`kernel_gap`), any other a `dependency`.
"""

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from lightning_gpuprof.analysis.trace.code_places import CodePlaces, parse_frame
from lightning_gpuprof.analysis.trace.grouping import named, summed, used
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, HostActivity
from lightning_gpuprof.analysis.trace.innermost import changes
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting, nest
from lightning_gpuprof.analysis.trace.step_marks import marks_of, step_events
from lightning_gpuprof.analysis.trace.time_split import (
    DeviceSpans,
    Spans,
    complement,
    covered_until,
)
from lightning_gpuprof.analysis.trace_tables import Gap, IdleCause, IdleFunction
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline, select

HOST_CAUSES = tuple(f"host_{activity}" for activity in ACTIVITIES)
CAUSES = (*HOST_CAUSES, "launch_latency", "kernel_gap", "dependency", "unknown")
WORKING_CAUSES = ("host_launch_call", "host_operator", "host_region", "host_python")
"""Causes of idle time during which the host was working."""
LAUNCH_CAUSES = ("host_launch_call", "launch_latency", "kernel_gap")
"""Causes of launch overhead: the launching call, and the way from it to the device."""
LATE_CAUSES = (*WORKING_CAUSES, "launch_latency")
"""Causes of idle time up to a launch that came late because the host was working."""
_CALL = HOST_CAUSES.index("host_launch_call")
_LATENCY, _KERNEL_GAP, _DEPENDENCY, _UNKNOWN = range(len(HOST_CAUSES), len(CAUSES))
LONGEST = 20
SLOW_CALL_NS = 100_000
"""A launch takes 2 to 20 us. One that takes longer than this does something else as well, such as
loading the kernel's module, and its time counts as the host's."""
KERNEL_GAP_NS = 10_000
"""A device needs 1 to 3 us (NVIDIA) or up to about 10 us (AMD) from one queued kernel to the next
of its stream; a longer wait has another reason."""


class IdleReport(Struct, frozen=True):
    """Idle time of one device by cause; the totals add up to its idle time exactly."""

    causes: tuple[IdleCause, ...]
    functions: tuple[IdleFunction, ...]
    longest: tuple[Gap, ...]


def idle_causes(
    trace: LinkedTrace, spans: DeviceSpans, places: CodePlaces | None = None
) -> IdleReport:
    """Attribute each gap of a device between the borders of its spans."""
    gaps = caused_gaps(trace, spans)
    total_ns, count = gaps.parts.sum(axis=1).tolist(), (gaps.parts > 0).sum(axis=1).tolist()
    causes = [cause for cause in map(IdleCause, CAUSES, total_ns, count) if cause.total_ns]
    causes.sort(key=lambda cause: (-cause.total_ns, cause.cause))
    functions = _functions(trace.timeline, gaps)
    return IdleReport(tuple(causes), functions, _longest(trace, gaps, places))


class CausedGaps(Struct, frozen=True):
    """The gaps of a device in order, with their causes.

    Args:
        next_row: The device row that ends each; -1 where the window does.
        parts: The time of each gap (columns) by cause (rows).
        until: Up to when the host was late with the launch; the gap's start where it was not.
        thread: The host thread that was late; -1 for none.
    """

    spans: Spans
    next_row: Int64
    parts: Int64
    cause: Int64
    until: Int64
    thread: Int64


def caused_gaps(trace: LinkedTrace, spans: DeviceSpans) -> CausedGaps:
    """Divide a device's gaps among the causes."""
    device = trace.timeline.device
    windows = zip(spans.windows.start.tolist(), spans.windows.end.tolist(), strict=True)
    free = [complement(spans.busy, start, end) for start, end in windows]
    gaps = Spans(*(np.concatenate(side) for side in zip(*map(astuple, free), strict=True)))
    rows = np.flatnonzero((device.device == spans.device) & (device.dur_ns > 0))
    # The table is sorted by start, and a gap ends where some event starts, or with the window.
    next_row = np.append(rows, -1)[np.searchsorted(device.start_ns[rows], gaps.end)]
    ends = device.end_ns[rows]
    order = np.argsort(ends, kind="stable")
    last = np.searchsorted(ends[order], gaps.start, side="right") - 1
    before = np.append(rows[order], -1)[last]  # what ended last before each gap; -1: nothing
    parts, until, thread = _parts(trace, gaps, next_row, before, spans.device)
    cause = parts.argmax(axis=0).astype(np.int64)
    return CausedGaps(gaps, next_row, parts, cause, until, thread)


def _parts(
    trace: LinkedTrace, gaps: Spans, next_row: Int64, before: Int64, number: int
) -> tuple[Int64, Int64, Int64]:
    """Divide each gap (columns) of a device among the causes (rows), by the launch that ended it.

    Also returns until when the host was late, and which thread was. From the last event to the end
    of the last step nothing was launched: there the late thread is the one that runs the steps.
    """
    host, device = trace.timeline.host, trace.timeline.device
    parts, length = np.zeros((len(CAUSES), len(gaps)), dtype=np.int64), gaps.end - gaps.start
    call = np.where(next_row >= 0, trace.launches.call[next_row], -1)
    known = call >= 0
    same_stream = (before >= 0) & (device.stream[next_row] == device.stream[before])
    short = same_stream & (length < KERNEL_GAP_NS)
    if not len(host):
        parts[_KERNEL_GAP, short], parts[_UNKNOWN, ~short] = length[short], length[~short]
        return parts, gaps.start, np.full(len(gaps), -1, dtype=np.int64)
    called, returned = host.start_ns[call], host.start_ns[call] + host.dur_ns[call]
    late = known & (called >= gaps.start)
    queued = known & ~late
    thread = np.where(late, host.thread[call], -1).astype(np.int64)
    if len(steps := step_events(trace.timeline)):
        steps = select(steps, marks_of(trace.timeline, trace.launches, steps, number))
        behind = next_row < 0
        thread[behind], called[behind] = steps.thread[-1], gaps.end[behind]
        late |= behind
    parts[_UNKNOWN, ~known & ~late] = length[~known & ~late]
    # A launch that seems to come after its kernel is a clock error: the host was late, at most
    # until the kernel started.
    until = np.minimum(called, gaps.end)
    since = np.where(late, until, gaps.start)
    slow = known & (returned - called >= SLOW_CALL_NS)
    in_call = np.where(slow, np.maximum(np.minimum(returned, gaps.end) - since, 0), 0)
    rest = length - (since - gaps.start) - in_call
    parts[_LATENCY, late] = rest[late]
    parts[_KERNEL_GAP, queued & short] = rest[queued & short]
    parts[_DEPENDENCY, queued & ~short] = rest[queued & ~short]
    activity = HostActivity(trace.timeline, trace.nesting)
    for late_thread in used(thread[late]):
        waiting = late & (thread == late_thread)
        parts[: len(HOST_CAUSES), waiting] = activity.within(
            late_thread, Spans(gaps.start[waiting], until[waiting])
        )
    parts[_CALL] += in_call
    return parts, np.where(late, until, gaps.start), thread


def _functions(timeline: Timeline, gaps: CausedGaps) -> tuple[IdleFunction, ...]:
    """Name the Python functions that the late threads were in, the longest first."""
    host = timeline.host
    python = host.category == CATEGORY_ID["python_function"]
    if not python.any():
        return ()
    # Built-ins count for the function that calls them; regions are not nested in calls (`nest`).
    shown = ~named(timeline, lambda name: name.startswith("<built-in"))
    shown &= host.category != CATEGORY_ID["user_annotation"]
    total_ns = np.zeros(len(timeline.names), dtype=np.int64)
    for number in used(gaps.thread[gaps.thread >= 0]):
        waiting = (gaps.thread == number) & (gaps.until > gaps.spans.start)
        waited = Spans(gaps.spans.start[waiting], gaps.until[waiting])
        calls = select(host, shown & (host.thread == number))
        nesting = nest(calls, python=True)
        last = np.flatnonzero(nesting.end_ns > calls.start_ns)
        pieces = [(np.zeros(0, dtype=np.int64), last[:0]), *changes(calls, nesting, last)]
        at, inner = map(np.concatenate, zip(*pieces, strict=True))
        spent, inner = np.diff(covered_until(waited, at)), inner[:-1]
        own = (inner >= 0) & (calls.category[inner] == CATEGORY_ID["python_function"])
        total_ns += summed(calls.name[inner[own]], spent[own], len(timeline.names))
    order = np.argsort(-total_ns, kind="stable")[:LONGEST].tolist()
    return tuple(
        IdleFunction(name := timeline.names[i], parse_frame(name), int(total_ns[i]))
        for i in order
        if total_ns[i]
    )


def _longest(trace: LinkedTrace, gaps: CausedGaps, places: CodePlaces | None) -> tuple[Gap, ...]:
    timeline, nesting = trace.timeline, trace.nesting
    length = gaps.spans.end - gaps.spans.start
    longest = []
    for i in np.lexsort((gaps.spans.start, -length))[:LONGEST].tolist():
        event = int(gaps.next_row[i])
        row = int(trace.launches.call[event]) if event >= 0 else -1
        longest.append(
            Gap(
                start_ns=int(gaps.spans.start[i]),
                dur_ns=int(length[i]),
                cause=CAUSES[int(gaps.cause[i])],
                next_name=timeline.names[timeline.device.name[event]] if event >= 0 else None,
                operator=enclosing(timeline, nesting, row, "cpu_op"),
                region=enclosing(timeline, nesting, row, "user_annotation"),
                where=places.at(timeline, row) if places else None,
            )
        )
    return tuple(longest)


def enclosing(timeline: Timeline, nesting: Nesting, row: int, category: str) -> str | None:
    """Return the name of the innermost event of a category at or around a host row."""
    wanted = CATEGORY_ID[category]
    while row >= 0:
        if timeline.host.category[row] == wanted:
            return timeline.names[int(timeline.host.name[row])]
        row = int(nesting.parent[row])
    return None
