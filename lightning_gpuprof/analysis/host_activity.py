"""What a host thread was doing at any moment, as time summed by kind of activity."""

import re
from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.host_calls import call_kind
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.analysis.trace_steps import is_step
from lightning_gpuprof.traces.timeline import CATEGORIES, Int64, Timeline

ACTIVITIES = ("data_wait", "sync", "allocator", "launch_call", "operator", "region", "python")
"""From the most telling to the least; `region` is a named annotation outside any operator,
`python` a thread on which nothing but a step was recorded."""
_DATA_WAIT = re.compile(
    r"enumerate\(DataLoader\)|DataLoaderIter|train_dataloader_next|val_dataloader_next"
    r"|_next_data|DataPipe.*__next__|dataloader.*next",
    re.IGNORECASE,
)
_DATA, _SYNC, _ALLOC, _CALL, _OP, _REGION, _PYTHON = range(len(ACTIVITIES))


@dataclass(frozen=True)
class ThreadActivity:
    """Time that a thread spent in each activity before each of its boundaries.

    Args:
        at: Times at which the innermost event changes, rising.
        activity: What began at each.
        before: Time in each activity before each boundary; one row per activity.
    """

    at: Int64
    activity: Int64
    before: Int64

    def until(self, times: Int64) -> Int64:
        """Return the time spent in each activity (rows) before each time (columns)."""
        if not len(self.at):
            return np.zeros((len(ACTIVITIES), len(times)), dtype=np.int64)
        index = np.searchsorted(self.at, times, side="right") - 1
        inside = np.maximum(index, 0)
        result: Int64 = self.before[:, inside].copy()
        columns = np.arange(len(times))
        result[self.activity[inside], columns] += times - self.at[inside]
        # Before the first boundary nothing was recorded: that counts down from it as Python.
        early = index < 0
        result[:, early] = 0
        result[_PYTHON, early] = times[early] - self.at[0]
        return result

    def within(self, start: Int64, end: Int64) -> Int64:
        """Return the time spent in each activity (rows) in each window (columns)."""
        inside: Int64 = self.until(end) - self.until(start)
        return inside


def thread_activity(timeline: Timeline, nesting: Nesting, thread: int) -> ThreadActivity:
    """Cut a thread's time at every border of its events."""
    host = timeline.host
    rows = np.flatnonzero((host.thread == thread) & (nesting.end_ns > host.start_ns))
    own = activities(timeline)
    kinds = _inherit_data_wait(own, nesting, rows)
    start, end = host.start_ns[rows], nesting.end_ns[rows]
    outer = nesting.parent[rows]
    around = np.where(outer >= 0, kinds[np.maximum(outer, 0)], _PYTHON)
    at = np.concatenate((end, start))
    begins = np.concatenate((around, kinds[rows]))
    level = nesting.depth[rows]
    # At one moment: inner events end before outer ones, then outer ones start before inner ones.
    rank = np.concatenate((-level - 1, level + 1))
    order = np.lexsort((rank, at))
    at, begins = at[order], begins[order]
    lasting = np.diff(at, append=at[-1:])
    before = np.zeros((len(ACTIVITIES), len(at)), dtype=np.int64)
    for kind in range(len(ACTIVITIES)):
        spent = np.where(begins == kind, lasting, 0)
        before[kind, 1:] = np.cumsum(spent)[:-1]
    return ThreadActivity(at, begins, before)


def activities(timeline: Timeline) -> Int64:
    """Return each host event's own activity, as an index into `ACTIVITIES`."""
    host = timeline.host
    by_category = np.full(len(CATEGORIES), _PYTHON, dtype=np.int64)
    by_category[CATEGORIES.index("cpu_op")] = _OP
    by_category[CATEGORIES.index("user_annotation")] = _REGION
    by_category[CATEGORIES.index("cuda_runtime")] = _CALL
    by_category[CATEGORIES.index("cuda_driver")] = _CALL
    own = by_category[host.category]
    by_name = np.full(len(timeline.names), -1, dtype=np.int64)
    calls = own == _CALL
    for name in np.unique(host.name[calls]).tolist():
        kind = call_kind(timeline.names[name])
        by_name[name] = {"sync": _SYNC, "allocator": _ALLOC}.get(kind, -1)
    for name in np.unique(host.name[~calls]).tolist():
        if _DATA_WAIT.search(timeline.names[name]):
            by_name[name] = _DATA
        elif is_step(timeline.names[name]):
            by_name[name] = _PYTHON
    result: Int64 = np.where(by_name[host.name] >= 0, by_name[host.name], own)
    return result


def _inherit_data_wait(own: Int64, nesting: Nesting, rows: Int64) -> Int64:
    """Count all that runs inside a data loader's wait as that wait."""
    if not (own[rows] == _DATA).any():
        return own
    inside = nesting.inherited(np.where(own == _DATA, _DATA, -1))
    result: Int64 = np.where(inside == _DATA, _DATA, own)
    return result
