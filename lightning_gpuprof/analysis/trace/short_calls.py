"""Short operators again and again, one right after the other: what loops in Python leave."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, rows_by_thread
from lightning_gpuprof.analysis.trace.operators import ENGINE, Regions
from lightning_gpuprof.analysis.trace.trace_window import is_step
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import CATEGORY_ID

SHORT_NS = 10_000
"""Per event: an operator below this is about as long as dispatching it from Python."""
MIN_TURNS = 10
"""A stretch without a longer call has a loop's operators so many times; those that it has fewer of
are the model's before and after."""
MOST_GAP_NS = 3 * SHORT_NS
"""Between two calls: longer is no dispatching, but Python of its own (1 to 5 µs were seen between a
loop's, 30 to 90 between forward and backward)."""
_FREE = frozenset(
    f"aten::{name}"
    for name in """as_strided transpose t view view_as _unsafe_view reshape _reshape_alias expand
    expand_as slice select unsqueeze squeeze permute detach alias empty empty_like empty_strided
    resize_ narrow split chunk unbind contiguous to _to_copy linear matmul flatten unflatten movedim
    result_type lift_fresh new_empty new_zeros zeros zeros_like ones ones_like scalar_tensor
    resolve_conj resolve_neg is_nonzero item _local_scalar_dense""".split()
) | {"detach"}
"""Calls that move no data, or hand on to another call that is counted."""


class ShortCalls(Struct, frozen=True):
    """All such calls of a trace, but for those that make batches or update weights."""

    total_ns: int
    event_count: int
    call_count: int
    node_ns: int


def computes(name: str) -> bool:
    """Tell whether calls of an operator compute something, and are counted nowhere else."""
    # The engine's mark around each node would count the node twice.
    return name not in _FREE and not name.startswith(ENGINE)


def short_calls(trace: LinkedTrace, regions: Regions) -> ShortCalls | None:
    """Find them in a CPU's trace; None where a device has work of its own."""
    timeline, host = trace.timeline, trace.timeline.host
    if len(timeline.device):
        return None
    is_op = (host.category == CATEGORY_ID["cpu_op"]) & ~named(timeline, is_step)
    apart, computing = regions.in_batch | regions.in_update, named(timeline, computes)
    is_node = named(timeline, lambda name: name.startswith(ENGINE))
    found = np.zeros(4, dtype=np.int64)
    for part in rows_by_thread(host):
        rows = part[is_op[part]]
        if len(rows):
            found += _of_thread(trace, rows, is_op, apart, computing, is_node)
    return ShortCalls(*found.tolist())


def _of_thread(
    trace: LinkedTrace, rows: Int64, is_op: Mask, apart: Mask, computing: Mask, is_node: Mask
) -> Int64:
    """Return the figures of `ShortCalls` for one thread."""
    host, nesting = trace.timeline.host, trace.nesting
    above = nesting.parent[rows]
    first = np.flatnonzero((above < 0) | ~is_op[above])
    outer = rows[first]
    events = np.diff(np.append(first, len(rows)))
    calls = np.add.reduceat(computing[rows].astype(np.int64), first)
    begin, end = host.start_ns[outer], nesting.end_ns[outer]
    short = (end - begin < SHORT_NS * events) & ~apart[outer]
    gap = begin[1:] - end[:-1]
    joined = short[1:] & short[:-1] & (gap < MOST_GAP_NS)
    stretch = np.append(0, np.cumsum(~joined))
    key = stretch * len(trace.timeline.names) + host.name[outer]
    _, turn, turns = np.unique(key, return_inverse=True, return_counts=True)
    kept = short & (turns[turn] >= MIN_TURNS)
    length = (end - begin) * kept
    length[1:] += gap * (joined & kept[1:] & kept[:-1])
    in_nodes = length[is_node[outer]].sum()
    return np.array([length.sum(), events[kept].sum(), calls[kept].sum(), in_nodes], dtype=np.int64)
