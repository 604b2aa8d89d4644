"""Calls of torch's dispatch modes: what they take beside the operators that they are told of."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import highest, named, summed
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.traces.timeline import CATEGORY_ID, of_category

MODE = "PythonDispatchMode"
"""What torch calls its event around such a call."""


class ModeCalls(Struct, frozen=True):
    """All calls of a trace.

    Args:
        call_count: Calls.
        own_ns: Their time outside the operators called inside.
        beside_least_ns: Operators called inside beside the longest of each call: of those that a
            mode calls for itself (a search for NaN, say) the least.
        beside_most_ns: The same beside the first, or the longest, whichever leaves more.
    """

    call_count: int
    own_ns: int
    beside_least_ns: int
    beside_most_ns: int


def mode_calls(trace: LinkedTrace) -> ModeCalls | None:
    """Sum them up; None where a trace has none."""
    host, nesting = trace.timeline.host, trace.nesting
    is_mode = named(trace.timeline, lambda name: name == MODE)
    is_mode &= host.category == CATEGORY_ID["cpu_op"]
    calls = np.flatnonzero(is_mode)
    if not len(calls):
        return None
    inside = (nesting.parent >= 0) & is_mode[nesting.parent]
    counts = inside & of_category(host, "cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
    rows = np.flatnonzero(counts)
    group = np.searchsorted(calls, nesting.parent[rows])
    length = nesting.end_ns[rows] - host.start_ns[rows]
    whole = summed(group, length, len(calls))
    longest = highest(group, length, len(calls))
    first = np.zeros(len(calls), dtype=np.int64)
    at, begins = np.unique(group, return_index=True)  # a call's operators are in order of time
    first[at] = length[begins]
    taken = int((nesting.end_ns[calls] - host.start_ns[calls]).sum())
    return ModeCalls(
        call_count=len(calls),
        own_ns=max(0, taken - int(whole.sum())),
        beside_least_ns=int((whole - longest).sum()),
        beside_most_ns=int((whole - np.minimum(first, longest)).sum()),
    )
