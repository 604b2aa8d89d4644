"""The critical path: the chain of work, on host and device, that took all of a trace's time.

It is walked backwards from what ended last. A device event began when the latest of these let
it: its launch, the event before it on its stream, or an event of another stream that it was told
to wait for. Host work began when the work before it on the thread in control had ended, or when
a synchronizing call returned. So each nanosecond of the span lies in exactly one segment, and
shortening anything that is not on the path saves nothing.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from enum import Enum

import numpy as np

from lightning_gpuprof.analysis.blocking import waits
from lightning_gpuprof.analysis.device_waits import previous_on_stream, stream_waits
from lightning_gpuprof.analysis.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.host_control import HostControl
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline

_UNRECORDED = "nothing recorded"
OTHER_STREAM_NS = 10_000
"""A queued event that starts this soon after another stream's ended is taken to have waited for
it, where the trace does not record who waited for whom."""


class PathKind(str, Enum):
    """What a part of the path was spent on."""

    HOST = "host"
    """A host thread worked."""
    LAUNCH = "launch"
    """From the launching call's end to the start on a device that was waiting for it."""
    DEVICE = "device"
    """A kernel, copy or fill ran."""
    QUEUE = "queue"
    """Queued work had not begun although what it depends on had ended."""
    SYNC = "sync"
    """The device had finished, and the synchronizing call had not returned yet."""


@dataclass(frozen=True)
class PathSegment:
    """A stretch of the path.

    Args:
        kind: What it was spent on.
        start_ns: When it began.
        dur_ns: How long it lasted.
        name: Kernel, operator, call or region; for waits, what came after.
        detail: The event's category on the device, the activity on the host.
        row: Row in the device or host table; -1 where nothing was recorded.
    """

    kind: PathKind
    start_ns: int
    dur_ns: int
    name: str
    detail: str
    row: int = -1


@dataclass(frozen=True)
class PathPart:
    """All segments of one kind and name.

    Args:
        kind: What they were spent on.
        name: Kernel, operator, call or region.
        detail: As in `PathSegment`.
        count: Segments.
        total_ns: Their time: the most that shortening all of it can save.
        frac: Its share of the path.
    """

    kind: PathKind
    name: str
    detail: str
    count: int
    total_ns: int
    frac: float


@dataclass(frozen=True)
class CriticalPath:
    """The path through a trace, in order of time; segments join without gap or overlap."""

    start_ns: int
    end_ns: int
    segments: tuple[PathSegment, ...]
    notes: tuple[str, ...] = ()

    @property
    def span_ns(self) -> int:
        """Length of the path."""
        return self.end_ns - self.start_ns

    @property
    def kind_ns(self) -> dict[PathKind, int]:
        """Time by kind; adds up to the span."""
        total: dict[PathKind, int] = dict.fromkeys(PathKind, 0)
        for segment in self.segments:
            total[segment.kind] += segment.dur_ns
        return total

    def parts(self) -> list[PathPart]:
        """Sum up segments by kind and name, longest first."""
        found: dict[tuple[PathKind, str, str], list[int]] = defaultdict(lambda: [0, 0])
        for segment in self.segments:
            entry = found[segment.kind, segment.name, segment.detail]
            entry[0] += 1
            entry[1] += segment.dur_ns
        parts = [
            PathPart(*key, count, total, total / self.span_ns if self.span_ns else 0.0)
            for key, (count, total) in found.items()
        ]
        return sorted(parts, key=lambda part: (-part.total_ns, part.name))

    def within(self, start_ns: int, end_ns: int) -> "CriticalPath":
        """Return the part of the path inside a window, a step's say."""
        start_ns, end_ns = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        inside = []
        for segment in self.segments:
            begin = max(segment.start_ns, start_ns)
            end = min(segment.start_ns + segment.dur_ns, end_ns)
            if end > begin:
                inside.append(
                    PathSegment(
                        segment.kind, begin, end - begin, segment.name, segment.detail, segment.row
                    )
                )
        return CriticalPath(start_ns, max(start_ns, end_ns), tuple(inside), self.notes)


def critical_path(
    timeline: Timeline,
    nesting: Nesting,
    launches: Launches,
    *,
    max_segments: int | None = None,
) -> CriticalPath | None:
    """Walk the critical path of a whole trace.

    Args:
        timeline: The trace.
        nesting: Of its host events.
        launches: Joined to its device events.
        max_segments: Give up the walk after so many, and say how far it came.

    Returns:
        The path; None where the trace holds neither operators nor device events.
    """
    walk = _Walk(timeline, nesting, launches)
    if walk.end < 0:
        return None
    walk.run(max_segments)
    return CriticalPath(walk.time, walk.end, tuple(reversed(walk.segments)), tuple(walk.notes))


class _Walk:
    """The state of the walk: how far back it has come, and through whom."""

    def __init__(self, timeline: Timeline, nesting: Nesting, launches: Launches) -> None:
        host, device = timeline.host, timeline.device
        self.segments: list[PathSegment] = []
        self.notes: list[str] = []
        self._names = timeline.names
        self._control = HostControl(timeline, nesting, launches)
        self._host_start: list[int] = host.start_ns.tolist()
        self._host_end: list[int] = nesting.end_ns.tolist()
        self._host_name: list[int] = host.name.tolist()
        self._host_thread: list[int] = host.thread.tolist()
        self._start: list[int] = device.start_ns.tolist()
        self._end: list[int] = device.end_ns.tolist()
        self._name: list[int] = device.name.tolist()
        self._category: list[int] = device.category.tolist()
        self._stream: list[int] = device.stream.tolist()
        self._call: list[int] = launches.call.tolist()
        self._previous = previous_on_stream(timeline)
        self._waits = stream_waits(timeline, launches)
        order = np.argsort(device.end_ns, kind="stable")
        self._by_end: list[int] = order.tolist()
        self._ends: list[int] = device.end_ns[order].tolist()
        self._waited_for = {
            wait.row: wait.device_row for wait in waits(timeline, nesting, launches)
        }
        self._begin = min(
            (int(table.start_ns[0]) for table in (host, device) if len(table)), default=0
        )
        self._device_row = (
            self._by_end[-1] if self._ends and self._ends[-1] >= self._control.end() else -1
        )
        self._thread = self._control.any_thread()
        self.end = max(self._control.end(), self._ends[-1] if self._ends else -1)
        self.time = self.end

    def run(self, max_segments: int | None) -> None:
        """Walk back to the trace's beginning."""
        while self.time > self._begin:
            if max_segments is not None and len(self.segments) >= max_segments:
                self.notes.append(
                    f"The path was walked over its last {len(self.segments)} segments only."
                )
                return
            if self._device_row >= 0:
                self._step_device(self._device_row)
            elif self._thread >= 0:
                self._step_host()
            else:
                self._add(PathKind.HOST, self._begin, _UNRECORDED, "python")

    def _add(self, kind: PathKind, start: int, name: str, detail: str, row: int = -1) -> None:
        """Add what came before the segments so far, back to a start."""
        start = max(start, self._begin)
        if start < self.time:
            self.segments.append(PathSegment(kind, start, self.time - start, name, detail, row))
            self.time = start

    def _step_device(self, row: int) -> None:
        name = self._names[self._name[row]]
        category = CATEGORIES[self._category[row]]
        self._add(PathKind.DEVICE, self._start[row], name, category, row)
        start = min(self._start[row], self.time)
        call = self._call[row]
        # A launch cannot have ended after its kernel began, whatever the clocks say.
        launched = min(self._host_end[call], start) if call >= 0 else -1
        before = self._predecessor(row, start, launched)
        ended = self._end[before] if before >= 0 else -1
        if call >= 0 and launched >= ended:
            self._add(PathKind.LAUNCH, launched, name, category, row)
            self._device_row, self._thread = -1, self._host_thread[call]
        elif before >= 0:
            self._add(PathKind.QUEUE, ended, name, category, row)
            self._device_row = before
        else:
            self._device_row = -1

    def _predecessor(self, row: int, start: int, launched: int) -> int:
        """Return the device event that ended last of those this one waited for; -1 for none."""
        candidates = [self._previous[row], *self._waits.get(row, ())]
        known = [c for c in candidates if c >= 0 and self._end[c] <= start and c < row]
        best = max(known, key=lambda c: self._end[c], default=-1)
        ended = max(self._end[best] if best >= 0 else -1, launched)
        if start - ended > OTHER_STREAM_NS or (best < 0 and launched < 0):
            other = self._last_ended(start)
            near = other >= 0 and start - self._end[other] <= OTHER_STREAM_NS
            # Rows are in order of start: only going to earlier ones, the walk must end.
            if 0 <= other < row and (near or ended < 0):
                return other
        return best

    def _last_ended(self, time: int) -> int:
        index = bisect_right(self._ends, time) - 1
        return self._by_end[index] if index >= 0 else -1

    def _step_host(self) -> None:
        self._thread, row, since = self._control.take(self._thread, self.time)
        if row < 0:
            self._add(PathKind.HOST, max(since, self._begin), _UNRECORDED, "python")
            return
        name = self._names[self._host_name[row]]
        activity = self._control.activity[row]
        waited = self._waited_for.get(row, -1)
        # The walk may come into a call from its middle, by another thread's launch.
        # Strictly before now: an event without duration would lead back here for ever.
        if waited >= 0 and self._host_start[row] < self._end[waited] < self.time:
            self._add(PathKind.SYNC, self._end[waited], name, ACTIVITIES[activity], row)
            self._device_row = waited
            return
        self._add(PathKind.HOST, since, name, ACTIVITIES[activity], row)
