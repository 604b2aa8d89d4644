"""Which operator calls of known cost ran which kernels, and for how long."""

from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.analysis.grouping import distinct, grouped
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.analysis.op_call import Cost
from lightning_gpuprof.analysis.op_costs import MODELS, operator_cost
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    MISSING,
    Int32,
    Int64,
    OpArguments,
    Timeline,
    of_category,
)

WORK = ("kernel", "gpu_memset")
"""What an operator's time on the device is made of; cuBLAS clears its workspace by fills."""
_TF32_MARKS = ("tf32", "s1688", "xf32")
"""In kernel names: products of fp32 inputs that were rounded to 19 bits (TF32)."""


@dataclass(frozen=True)
class CallGroup:
    """Calls with the same name and arguments, and their kernels."""

    name: str
    arguments: OpArguments
    count: int
    kernel_count: int
    kernel_ns: int
    tf32: bool


def costed_calls(
    timeline: Timeline, nesting: Nesting, launches: Launches
) -> list[tuple[CallGroup, Cost]]:
    """Return the operators of known cost that ran kernels.

    Calls whose arguments differ in nothing that matters here, such as strides, are one group.
    """
    found: dict[object, tuple[CallGroup, Cost]] = {}
    for group in _groups(timeline, nesting, launches):
        cost = operator_cost(group.name, group.arguments)
        if cost is None or group.kernel_ns <= 0:
            continue
        key = (group.name, repr(group.arguments.dims), cost, group.tf32)
        if key in found:
            other = found[key][0]
            group = replace(
                group,
                count=group.count + other.count,
                kernel_count=group.kernel_count + other.kernel_count,
                kernel_ns=group.kernel_ns + other.kernel_ns,
            )
        found[key] = (group, cost)
    return list(found.values())


def _groups(timeline: Timeline, nesting: Nesting, launches: Launches) -> list[CallGroup]:
    host, device = timeline.host, timeline.device
    modelled = [index for index, name in enumerate(timeline.names) if name in MODELS]
    has_model = np.zeros(len(timeline.names), dtype=np.bool_)
    has_model[modelled] = True
    is_modelled = (
        has_model[host.name]
        & (host.category == CATEGORY_ID["cpu_op"])
        & (host.arguments != MISSING)
    )
    # The innermost operator of known cost owns a kernel: `addmm`, not the `linear` around it.
    owner_of = nesting.inherited(np.where(is_modelled, np.arange(len(host)), -1))
    rows = np.flatnonzero((launches.call >= 0) & of_category(device, *WORK))
    owner = owner_of[launches.call[rows]]
    rows, owner = rows[owner >= 0], owner[owner >= 0]
    if not len(rows):
        return []
    keys, group = grouped((host.name[owner].astype(np.int64) << 32) + host.arguments[owner])
    calls = _distinct_calls(group, owner, len(keys))
    kernel_ns = np.bincount(group, weights=device.dur_ns[rows], minlength=len(keys))
    kernel_count = np.bincount(group, minlength=len(keys))
    tf32 = _any_marked(timeline, device.name[rows], group, len(keys))
    return [
        CallGroup(
            timeline.names[name],
            timeline.arguments[arguments],
            int(calls[i]),
            int(kernel_count[i]),
            int(kernel_ns[i]),
            bool(tf32[i]),
        )
        for i, (name, arguments) in enumerate(divmod(key, 1 << 32) for key in keys.tolist())
    ]


def _distinct_calls(group: Int64, owner: Int64, groups: int) -> Int64:
    pairs = distinct((group << 32) + owner)
    return np.bincount(pairs >> 32, minlength=groups).astype(np.int64)


def _any_marked(timeline: Timeline, names: Int32, group: Int64, groups: int) -> Int64:
    marked = [
        index
        for index, name in enumerate(timeline.names)
        if any(mark in name.lower() for mark in _TF32_MARKS)
    ]
    is_marked = np.zeros(len(timeline.names), dtype=np.bool_)
    is_marked[marked] = True
    return np.bincount(group[is_marked[names]], minlength=groups).astype(np.int64)
