"""The segments of a critical path, as columns."""

from collections.abc import Iterable
from enum import Enum

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple

from lightning_gpuprof.analysis.trace.host_activity import ACTIVITIES
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORIES


class PathKind(str, Enum):
    """The kinds of time on the path."""

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


KINDS = tuple(PathKind)
NUMBER = {kind: index for index, kind in enumerate(KINDS)}


class PathRows(Struct, frozen=True):
    """Segments of a path, as columns.

    `kind` is an index into `KINDS`, `name` into the timeline's names, `detail` see `detail_name`;
    `row` is that of the device or host table. -1 where nothing was recorded.
    """

    kind: Int64
    start_ns: Int64
    dur_ns: Int64
    name: Int64
    detail: Int64
    row: Int64

    def cut(self, start_ns: int, end_ns: int) -> "PathRows":
        """Return the part in a window; empty segments are left out."""
        start = np.maximum(self.start_ns, start_ns)
        dur = np.minimum(self.start_ns + self.dur_ns, end_ns) - start
        columns = (self.kind, start, dur, self.name, self.detail, self.row)
        return PathRows(*(column[dur > 0] for column in columns))


def detail_name(kind: int, detail: int) -> str:
    """Return a segment's activity on the host, or the category of its device event."""
    on_host = KINDS[kind] in (PathKind.HOST, PathKind.SYNC)
    return ACTIVITIES[detail] if on_host else CATEGORIES[detail]


def joined(parts: Iterable[PathRows]) -> PathRows:
    """Put segments in order of time."""
    columns = [np.concatenate(column) for column in zip(*map(astuple, parts), strict=True)]
    order = np.argsort(columns[1], kind="stable")
    return PathRows(*(column[order] for column in columns))
