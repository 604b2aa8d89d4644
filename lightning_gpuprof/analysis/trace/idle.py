"""Why a device was idle: every nanosecond of its gaps is given to one cause.

A gap is time in which none of the device's streams runs anything, between its first event
and its last. The event that ends a gap tells why it lasted: where its launching call began
after the gap did, the host was late, and what the launching thread did meanwhile is the
cause up to the call; from the call's start to the event's start it is launch latency. Where
the call had begun before the gap, the work was queued and the device did not take it yet: a
short gap between two events of one stream is the device's own (`kernel_gap`), all else is a
`dependency`.
"""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.code_places import CodePlaces, Place
from lightning_gpuprof.analysis.trace.grouping import used
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES, HostActivity
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting
from lightning_gpuprof.analysis.trace.time_split import DeviceSpans, Spans, complement
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline

HOST_CAUSES = tuple(f"host_{activity}" for activity in ACTIVITIES)
CAUSES = (*HOST_CAUSES, "launch_latency", "kernel_gap", "dependency", "unknown")
WORKING_CAUSES = ("host_launch_call", "host_operator", "host_region", "host_python")
"""Causes of idle time in which the host works."""
LATE_CAUSES = (*WORKING_CAUSES, "launch_latency")
"""Idle time up to a launch that a host at work made late."""
_CALL = HOST_CAUSES.index("host_launch_call")
_LATENCY, _KERNEL_GAP, _DEPENDENCY, _UNKNOWN = range(len(HOST_CAUSES), len(CAUSES))
LONGEST = 20
_NO_STREAM = -(2**62)
SLOW_CALL_NS = 100_000
"""A launch takes 2 to 20 us. One that takes longer than this does something else as well, such as
loading the kernel's module, and its time counts as the host's."""
KERNEL_GAP_NS = 10_000
"""A device needs 1 to 3 us (NVIDIA) or up to about 10 us (AMD) from one queued kernel of a
stream to the next. A longer wait of queued work has another reason: an event of another stream,
a host callback, a copy engine."""


class IdleCause(Struct, frozen=True):
    """Idle time with one cause; `count` is the number of gaps it has a part in."""

    cause: str
    total_ns: int
    count: int


class Gap(Struct, frozen=True):
    """One gap: its largest cause, what ended it, and where its launch came from."""

    start_ns: int
    dur_ns: int
    cause: str
    next_name: str | None
    operator: str | None
    region: str | None
    place: Place | None


class IdleReport(Struct, frozen=True):
    """Idle time of one device by cause; the totals add up to its idle time exactly."""

    causes: tuple[IdleCause, ...]
    longest: tuple[Gap, ...]


def idle_causes(
    trace: LinkedTrace, spans: DeviceSpans, places: CodePlaces | None = None
) -> IdleReport:
    """Attribute each gap of a device between the borders of its spans."""
    gaps = _Gaps(trace, spans)
    return IdleReport(_totals(gaps.parts), _longest(trace, gaps, places))


class CausedGaps(Struct, frozen=True):
    """Every gap in order: its largest cause (in `CAUSES`), and the row that ended it or -1."""

    spans: Spans
    cause: Int64
    next_row: Int64


def caused_gaps(trace: LinkedTrace, spans: DeviceSpans) -> CausedGaps:
    """Return each gap of a device with its largest cause, to be drawn one by one."""
    gaps = _Gaps(trace, spans)
    return CausedGaps(gaps.between, gaps.cause.astype(np.int64), gaps.following)


class _Gaps:
    """A device's gaps, divided among the causes.

    Attributes:
        between: The gaps.
        following: The device row that ends each; -1 where the window does.
        parts: The time of each gap (columns) by cause (rows).
        cause: The cause with the largest part of each.
    """

    def __init__(self, trace: LinkedTrace, spans: DeviceSpans) -> None:
        timeline, nesting = trace.timeline, trace.nesting
        device = timeline.device
        self.between = between = complement(spans.busy, spans.start_ns, spans.end_ns)
        rows = np.flatnonzero((device.device == spans.device) & (device.dur_ns > 0))
        # The table is sorted by start, and a gap ends where some event starts, or with the window.
        at = np.searchsorted(device.start_ns[rows], between.end)
        self.following = np.append(rows, -1)[at]
        if not len(between):
            self.parts = np.zeros((len(CAUSES), 0), dtype=np.int64)
            self.cause = between.start
            return
        before = _previous(timeline, rows, between)
        stream = np.where(before >= 0, device.stream[before], np.int64(_NO_STREAM))
        launched = _Launched(trace, self.following, stream)
        self.parts = _parts(between, launched, HostActivity(timeline, nesting))
        self.cause = self.parts.argmax(axis=0)


class _Launched:
    """For each gap, the launching call of the event that ends it.

    Args:
        trace: The trace.
        following: The row that ends each gap.
        before: Stream of the event before it.
    """

    def __init__(self, trace: LinkedTrace, following: Int64, before: Int64) -> None:
        host, device = trace.timeline.host, trace.timeline.device
        self.call = np.where(following >= 0, trace.launches.call[following], -1)
        self.known = self.call >= 0
        self.same_stream = device.stream[following] == before
        at = np.maximum(self.call, 0)
        nothing = np.zeros_like(self.call)
        self.start = host.start_ns[at] if len(host) else nothing
        self.end = host.end_ns[at] if len(host) else nothing
        self.thread = host.thread[at] if len(host) else nothing


def _parts(between: Spans, launched: _Launched, activity: HostActivity) -> Int64:
    """Divide each gap (columns) among the causes (rows)."""
    parts = np.zeros((len(CAUSES), len(between)), dtype=np.int64)
    length = between.end - between.start
    late = launched.known & (launched.start >= between.start)
    queued = launched.known & ~late
    parts[_UNKNOWN] = np.where(launched.known, 0, length)
    # A launch that seems to come after its kernel is a clock error: the host was late, at most
    # until the kernel started.
    until = np.minimum(launched.start, between.end)
    since = np.where(late, until, between.start)
    slow = launched.known & (launched.end - launched.start >= SLOW_CALL_NS)
    in_call = np.where(slow, np.minimum(launched.end, between.end) - since, 0)
    in_call = np.maximum(in_call, 0)
    rest = between.end - since - in_call
    short = launched.same_stream & (length < KERNEL_GAP_NS)
    parts[_CALL] = in_call
    parts[_LATENCY, late] = rest[late]
    parts[_KERNEL_GAP, queued & short] = rest[queued & short]
    parts[_DEPENDENCY, queued & ~short] = rest[queued & ~short]
    for thread in used(launched.thread[late]):
        mine = late & (launched.thread == thread)
        windows = Spans(between.start[mine], until[mine])
        parts[: len(HOST_CAUSES), mine] += activity.within(thread, windows)
    return parts


def _previous(timeline: Timeline, rows: Int64, between: Spans) -> Int64:
    """Return the row of the event that ended last before each gap; -1 for none."""
    ends = timeline.device.end_ns[rows]
    order = np.argsort(ends, kind="stable")
    last = np.searchsorted(ends[order], between.start, side="right") - 1
    found: Int64 = np.where(last >= 0, rows[order[last]], -1)
    return found


def _totals(parts: Int64) -> tuple[IdleCause, ...]:
    total_ns, count = parts.sum(axis=1).tolist(), (parts > 0).sum(axis=1).tolist()
    rows = list(map(IdleCause, CAUSES, total_ns, count))
    present = [row for row in rows if row.total_ns]
    return tuple(sorted(present, key=lambda row: (-row.total_ns, row.cause)))


def _longest(trace: LinkedTrace, gaps: _Gaps, places: CodePlaces | None) -> tuple[Gap, ...]:
    timeline, nesting = trace.timeline, trace.nesting
    between, next_row = gaps.between, gaps.following
    length = between.end - between.start
    found = []
    for i in np.lexsort((between.start, -length))[:LONGEST].tolist():
        event = int(next_row[i])
        row = int(trace.launches.call[event]) if event >= 0 else -1
        found.append(
            Gap(
                start_ns=int(between.start[i]),
                dur_ns=int(length[i]),
                cause=CAUSES[int(gaps.cause[i])],
                next_name=timeline.names[timeline.device.name[event]] if event >= 0 else None,
                operator=enclosing(timeline, nesting, row, "cpu_op"),
                region=enclosing(timeline, nesting, row, "user_annotation"),
                place=places.at(timeline, row) if places else None,
            )
        )
    return tuple(found)


def enclosing(timeline: Timeline, nesting: Nesting, row: int, category: str) -> str | None:
    """Return the name of the innermost event of a category at or around a host row."""
    wanted = CATEGORY_ID[category]
    while row >= 0:
        if timeline.host.category[row] == wanted:
            return timeline.names[int(timeline.host.name[row])]
        row = int(nesting.parent[row])
    return None
