"""The critical path: the chain of work, on host and device, that took all of a trace's time.

It is walked backwards from what ended last. A device event began when the latest of these let
it: its launch, the event before it on its stream, or an event of another stream that it was told
to wait for. Host work began when the work before it on the thread in control had ended, or when
a synchronizing call returned. So each nanosecond of the span lies in exactly one segment, and
shortening anything that is not on the path saves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.analysis.grouping import grouped, summed
from lightning_gpuprof.analysis.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.analysis.path_rows import KINDS, PathKind, PathRows, detail_name
from lightning_gpuprof.analysis.path_walk import walk
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline

_UNRECORDED = "nothing recorded"


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


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The path through a trace, in order of time; segments join without gap or overlap.

    Args:
        start_ns: Where it begins.
        end_ns: Where it ends.
        rows: Its segments, as columns.
        names: The trace's names.
    """

    start_ns: int
    end_ns: int
    rows: PathRows
    names: Sequence[str]

    @property
    def span_ns(self) -> int:
        """Length of the path."""
        return self.end_ns - self.start_ns

    @property
    def segments(self) -> list[PathSegment]:
        """Every segment, in order of time."""
        columns = (self.rows.kind, self.rows.start_ns, self.rows.dur_ns, self.rows.name)
        lists = [column.tolist() for column in (*columns, self.rows.detail, self.rows.row)]
        return [
            PathSegment(KINDS[kind], start, dur, self._name(name), detail_name(kind, detail), row)
            for kind, start, dur, name, detail, row in zip(*lists, strict=True)
        ]

    @property
    def kind_ns(self) -> dict[PathKind, int]:
        """Time by kind; adds up to the span."""
        total = summed(self.rows.kind, self.rows.dur_ns, len(KINDS)).tolist()
        return dict(zip(KINDS, total, strict=True))

    def parts(self) -> list[PathPart]:
        """Sum up segments by kind and name, longest first."""
        rows, details = self.rows, max(len(ACTIVITIES), len(CATEGORIES))
        key = (rows.name * len(KINDS) + rows.kind) * details + rows.detail
        keys, group = grouped(key)
        count = np.bincount(group, minlength=len(keys)).tolist()
        total = summed(group, rows.dur_ns, len(keys)).tolist()
        parts = []
        for one, segments, ns in zip(keys.tolist(), count, total, strict=True):
            rest, detail = divmod(one, details)
            name, kind = divmod(rest, len(KINDS))
            frac = ns / self.span_ns if self.span_ns else 0.0
            label = detail_name(kind, detail)
            parts.append(PathPart(KINDS[kind], self._name(name), label, segments, ns, frac))
        return sorted(parts, key=lambda part: (-part.total_ns, part.name))

    def within(self, start_ns: int, end_ns: int) -> "CriticalPath":
        """Return the part of the path inside a window, a step's say."""
        start_ns, end_ns = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        inside = self.rows.cut(start_ns, end_ns)
        return replace(self, start_ns=start_ns, end_ns=max(start_ns, end_ns), rows=inside)

    def _name(self, index: int) -> str:
        return self.names[index] if index >= 0 else _UNRECORDED


def critical_path(timeline: Timeline, nesting: Nesting, launches: Launches) -> CriticalPath | None:
    """Walk the critical path of a whole trace.

    Args:
        timeline: The trace.
        nesting: Of its host events.
        launches: Joined to its device events.

    Returns:
        The path; None where the trace holds neither operators nor device events.
    """
    path = walk(timeline, nesting, launches)
    if path is None:
        return None
    return CriticalPath(path.start_ns, path.end_ns, path.rows, timeline.names)
