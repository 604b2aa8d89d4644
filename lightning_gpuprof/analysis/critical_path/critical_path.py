"""The critical path: the chain of work, on host and device, that took all of a trace's time.

A device event began when the latest of these let it: its launch, the event before it on its
stream, or an event of another stream that it had to wait for. Host work began when the work before
it on the thread in control had ended, or when a synchronizing call returned. So each nanosecond
lies in exactly one segment, and shortening anything that is not on the path saves nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.analysis.critical_path.path_walk import (
    HOST,
    KINDS,
    SYNC,
    PathRows,
    Walk,
    joined,
    walk,
)
from lightning_gpuprof.analysis.trace.grouping import counted, grouped, summed
from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace_tables import CriticalPathSummary, PathPart
from lightning_gpuprof.traces.timeline import CATEGORIES

_UNRECORDED = "nothing recorded"
TOP_PARTS = 50
_DETAILS = max(len(ACTIVITIES), len(CATEGORIES))


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The path through a trace; segments join without gap or overlap."""

    start_ns: int
    end_ns: int
    walked: Walk
    names: Sequence[str]

    def _pieces(self) -> Iterator[PathRows]:
        return (piece.cut(self.start_ns, self.end_ns) for piece in self.walked.pieces())

    @property
    def rows(self) -> PathRows:
        """All segments, in order of time."""
        return joined(self._pieces())

    @property
    def span_ns(self) -> int:
        """Length of the path."""
        return self.end_ns - self.start_ns

    @property
    def kind_ns(self) -> dict[str, int]:
        """Time by kind; adds up to the span."""
        return _by_kind(self.parts())

    def parts(self) -> list[PathPart]:
        """Sum up segments by kind and name, longest first."""
        sums: dict[int, tuple[int, int]] = {}
        for rows in self._pieces():
            names = rows.name.astype(np.int64)
            keys, group = grouped((names * len(KINDS) + rows.kind) * _DETAILS + rows.detail)
            total, count = summed(group, rows.dur_ns, len(keys)), counted(group, len(keys))
            for key, *more in zip(keys.tolist(), total.tolist(), count.tolist(), strict=True):
                ns, number = sums.get(key, (0, 0))
                sums[key] = ns + more[0], number + more[1]
        parts = []
        for key, (ns, number) in sorted(sums.items()):
            rest, detail = divmod(key, _DETAILS)
            name, kind = divmod(rest, len(KINDS))
            frac = ns / self.span_ns if self.span_ns else 0.0
            label = (ACTIVITIES if kind in (HOST, SYNC) else CATEGORIES)[detail]
            parts.append(PathPart(KINDS[kind], self.name(name), label, number, ns, frac))
        return sorted(parts, key=lambda part: (-part.total_ns, part.name))

    def summary(self, *, top: int = TOP_PARTS) -> CriticalPathSummary:
        """Return the longest parts, and the sum of the others."""
        parts = self.parts()
        return CriticalPathSummary(
            start_ns=self.start_ns,
            span_ns=self.span_ns,
            kind_ns=_by_kind(parts),
            parts=tuple(parts[:top]),
            rest_ns=sum(part.total_ns for part in parts[top:]),
        )

    def within(self, start_ns: int, end_ns: int) -> "CriticalPath":
        """Return the part of the path inside a window, a step's say."""
        start_ns, end_ns = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        return replace(self, start_ns=start_ns, end_ns=max(start_ns, end_ns))

    def name(self, index: int) -> str:
        """Return a segment's name by its index in `rows`."""
        return self.names[index] if index >= 0 else _UNRECORDED


def _by_kind(parts: Sequence[PathPart]) -> dict[str, int]:
    total = dict.fromkeys(KINDS, 0)
    for part in parts:
        total[part.kind] += part.total_ns
    return total


def critical_path(trace: LinkedTrace) -> CriticalPath | None:
    """Walk the critical path of a whole trace; None without operators or device events."""
    walked = walk(trace)
    if walked is None:
        return None
    return CriticalPath(walked.begin, walked.end, walked, trace.timeline.names)
