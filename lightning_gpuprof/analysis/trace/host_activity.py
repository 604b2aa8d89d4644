"""The activity of host threads over time, summed up by kind."""

import re

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import summed
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.linked_trace import Nesting
from lightning_gpuprof.analysis.trace.step_marks import is_step
from lightning_gpuprof.analysis.trace.time_split import Spans
from lightning_gpuprof.arrays import Int8, Int32, Int64
from lightning_gpuprof.traces.timeline import CATEGORIES, HostEvents, Timeline

ACTIVITIES = ("data_wait", "sync", "allocator", "launch_call", "operator", "region", "python")
"""From the most specific to the least; `region` is a named annotation outside any operator,
`python` a thread on which nothing but a step was recorded."""
_PYTHON_CALL = CATEGORIES.index("python_function")
_DATA_WAIT = re.compile(
    r"enumerate\(DataLoader\)|DataLoaderIter|train_dataloader_next|val_dataloader_next"
    r"|_next_data|DataPipe.*__next__|dataloader.*next",
    re.IGNORECASE,
)
_DATA, _SYNC, _ALLOC, _CALL, _OP, _REGION, _PYTHON = range(len(ACTIVITIES))
_BY_CATEGORY = {"cpu_op": _OP, "user_annotation": _REGION}
_BY_CATEGORY |= {"cuda_runtime": _CALL, "cuda_driver": _CALL}


class HostActivity:
    """Computes the time that a thread spent in each activity; Python calls are left out."""

    def __init__(self, timeline: Timeline, nesting: Nesting) -> None:
        self._timeline, self._nesting = timeline, nesting
        self._own = activities(timeline, nesting)
        self._by_thread: dict[int, tuple[Int64, Int8]] = {}

    def within(self, thread: int, windows: Spans) -> Int64:
        """Return the time in each activity (rows) in each window (columns), some perhaps empty."""
        if thread not in self._by_thread:
            host = self._timeline.host
            on_thread = (host.thread == thread) & (host.category != _PYTHON_CALL)
            rows = np.flatnonzero(on_thread & (self._nesting.end_ns > host.start_ns))
            at, inner = changes(host, self._nesting, rows)
            self._by_thread[thread] = at, np.append(self._own, np.int8(_PYTHON))[inner]
        at, begins = self._by_thread[thread]
        low = np.searchsorted(at, windows.start, side="right")
        high = np.maximum(np.searchsorted(at, windows.end, side="left"), low)
        pieces = high - low + 1
        first = np.cumsum(pieces) - pieces
        window = np.repeat(np.arange(len(low)), pieces)
        boundary = np.arange(len(window)) - first[window] + low[window] - 1
        at, begins = np.append(at, 0), np.append(begins, np.int8(_PYTHON))  # for index -1
        start = at[boundary]
        start[first] = windows.start
        end = np.append(start[1:], 0)
        end[first + pieces - 1] = windows.end
        cell = begins[boundary].astype(np.int64) * len(low) + window
        spent = summed(cell, end - start, len(ACTIVITIES) * len(low))
        return spent.reshape(len(ACTIVITIES), len(low))


def changes(host: HostEvents, nesting: Nesting, rows: Int64) -> tuple[Int64, Int32]:
    """Return when the innermost of a thread's events changes, rising, and the one from then on.

    `rows` are those of one thread, in order, without events that have no duration. The parents of
    all of them are among them.
    """
    start, end = host.start_ns[rows], nesting.end_ns[rows]
    count, depth = len(rows), nesting.depth[rows]
    # Nested events end in an order that follows from their depth. At one moment inner events end
    # before outer ones, then others start, outer ones first.
    number = np.arange(count, dtype=np.int32)
    after = number + np.int32(1)  # the first row that starts at an event's end or later
    inner = np.flatnonzero(start[1:] < end[:-1])
    after[inner] = np.searchsorted(start, end[inner])
    at, innermost = np.empty(2 * count, dtype=np.int64), np.empty(2 * count, dtype=np.int32)
    place = 2 * number - depth
    at[place], innermost[place] = start, rows
    place = 2 * after - depth - 1
    at[place], innermost[place] = end, nesting.parent[rows]
    last = np.append(at[1:] != at[:-1], True)[: len(at)]
    return at[last], innermost[last]


def activities(timeline: Timeline, nesting: Nesting) -> Int8:
    """Return each host event's activity, as an index into `ACTIVITIES`."""
    host = timeline.host
    by_category = np.array(
        [_BY_CATEGORY.get(category, _PYTHON) for category in CATEGORIES], dtype=np.int8
    )
    own: Int8 = by_category[host.category]
    by_name = np.array([_of_name(name) for name in timeline.names] or [-1], dtype=np.int8)
    named: Int8 = by_name[host.name]
    own = np.where(named >= 0, named, own)
    if (own == _DATA).any():
        inside = nesting.inherited(np.where(own == _DATA, np.int8(_DATA), np.int8(-1)))
        own[inside == _DATA] = _DATA
    return own


def _of_name(name: str) -> int:
    """Return the activity that a name stands for; -1 where the event's category decides."""
    kind = call_kind(name)
    if kind in ("sync", "allocator"):
        return _SYNC if kind == "sync" else _ALLOC
    if _DATA_WAIT.search(name):
        return _DATA
    return _PYTHON if is_step(name) else -1
