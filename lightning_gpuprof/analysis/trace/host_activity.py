"""The activity of host threads over time, summed up by kind."""

import re

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import summed
from lightning_gpuprof.analysis.trace.host_calls import call_kind
from lightning_gpuprof.analysis.trace.innermost import changes
from lightning_gpuprof.analysis.trace.linked_trace import Nesting
from lightning_gpuprof.analysis.trace.step_marks import is_step
from lightning_gpuprof.analysis.trace.time_split import Spans
from lightning_gpuprof.arrays import Int8, Int64
from lightning_gpuprof.traces.timeline import CATEGORIES, Timeline

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


_NEVER = np.iinfo(np.int64).max
_CHUNK = 1 << 15


class HostActivity:
    """Computes the time that a thread spent in each activity; Python calls are left out."""

    def __init__(self, timeline: Timeline, nesting: Nesting) -> None:
        self._timeline, self._nesting = timeline, nesting
        self._own = activities(timeline, nesting)

    def within(self, thread: int, windows: Spans) -> Int64:
        """Return the time in each activity (rows) in each window (columns), some perhaps empty."""
        at, begins = self._changes(thread)
        low = np.searchsorted(at[:-1], windows.start, side="right")
        high = np.maximum(np.searchsorted(at[:-1], windows.end, side="left"), low)
        stop = np.cumsum(high - low + 1)  # of each window's pieces, among the pieces of all
        spent = np.zeros((len(ACTIVITIES), len(low)), dtype=np.int64)
        for piece in range(0, int(stop[-1]) if len(stop) else 0, _CHUNK):
            until = min(piece + _CHUNK, int(stop[-1]))
            of = slice(np.searchsorted(stop, piece, side="right"), np.searchsorted(stop, until) + 1)
            counts = np.diff(np.minimum(stop[of], until), prepend=piece)
            window = np.repeat(np.arange(of.start, of.stop), counts)
            change = np.arange(piece, until) - (stop - high)[window]
            start, end = windows.start[window], np.minimum(at[change + 1], windows.end[window])
            start = np.where(change < 0, start, np.maximum(at[change], start))
            cell = begins[change] * np.int64(len(counts)) + window - of.start
            sums = summed(cell, end - start, len(ACTIVITIES) * len(counts))
            spent[:, of] += sums.reshape(len(ACTIVITIES), len(counts))
        return spent

    def _changes(self, thread: int) -> tuple[Int64, Int8]:
        """Return when a thread's activity changes, and the one from then on.

        The last values are for what comes before the first change, and after the last.
        """
        host = self._timeline.host
        on_thread = (host.thread == thread) & (host.category != _PYTHON_CALL)
        on_thread &= self._nesting.end_ns > host.start_ns
        rows = np.flatnonzero(on_thread).astype(np.int32)
        times, begun, last = bytearray(), bytearray(), np.int8(-1)
        own = np.append(self._own, np.int8(_PYTHON))  # for row -1
        for at, inner in changes(host, self._nesting, rows):
            activity = own[inner]
            differs = np.append(last, activity[:-1])[: len(activity)] != activity
            times += at[differs].tobytes()
            begun += activity[differs].tobytes()
            last = np.append(last, activity)[-1]
        times += np.array([_NEVER], dtype=np.int64).tobytes()
        begun += np.array([_PYTHON], dtype=np.int8).tobytes()
        return np.frombuffer(times, dtype=np.int64), np.frombuffer(begun, dtype=np.int8)


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
