"""Which operator calls of known cost ran which kernels, and for how long."""

from dataclasses import dataclass, replace

import numpy as np

from lightning_gpuprof.analysis.roofline.op_call import Cost
from lightning_gpuprof.analysis.roofline.op_costs import MODELS, operator_cost
from lightning_gpuprof.analysis.trace.grouping import (
    counted,
    distinct,
    grouped,
    matching,
    named,
    summed,
)
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting
from lightning_gpuprof.arrays import Int32, Int64, Mask
from lightning_gpuprof.traces.timeline import (
    CATEGORY_ID,
    MISSING,
    HostEvents,
    OpArguments,
    Timeline,
    of_category,
)

_LOW = (1 << 32) - 1
WORK = ("kernel", "gpu_memset")
"""Parts of an operator's device time; cuBLAS clears its workspace by fills."""
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


def costed_calls(trace: LinkedTrace) -> list[tuple[CallGroup, Cost]]:
    """Return the operators of known cost that ran kernels.

    Calls whose arguments differ in nothing that matters here, such as strides, are one group.
    """
    groups: dict[object, tuple[CallGroup, Cost]] = {}
    for group in _groups(trace):
        cost = operator_cost(group.name, group.arguments)
        if cost is None or group.kernel_ns <= 0:
            continue
        key = (group.name, repr(group.arguments.dims), cost, group.tf32)
        if key in groups:
            other = groups[key][0]
            group = replace(
                group,
                count=group.count + other.count,
                kernel_count=group.kernel_count + other.kernel_count,
                kernel_ns=group.kernel_ns + other.kernel_ns,
            )
        groups[key] = (group, cost)
    return list(groups.values())


def copied_bytes(timeline: Timeline) -> int | None:
    """Return what calls of `.to()` and `.cuda()` that copy read; None where no shapes are known."""
    host = timeline.host
    copies = named(timeline, lambda name: name == "aten::_to_copy") & (host.arguments != MISSING)
    kinds, kind = grouped(host.arguments[copies])
    costs = [operator_cost("aten::_to_copy", timeline.arguments[index]) for index in kinds.tolist()]
    num_bytes = np.array([cost.num_bytes if cost else 0 for cost in costs], dtype=np.int64)
    return int(num_bytes[kind].sum()) if len(kind) else None


def _groups(trace: LinkedTrace) -> list[CallGroup]:
    timeline, call = trace.timeline, trace.launches.call
    host, device = timeline.host, timeline.device
    is_modelled = (
        named(timeline, lambda name: name in MODELS)
        & (host.category == CATEGORY_ID["cpu_op"])
        & (host.arguments != MISSING)
    )
    rows = np.flatnonzero((call >= 0) & of_category(device, *WORK))
    owner = _owners(trace.nesting, is_modelled, call[rows])
    rows, owner = rows[owner >= 0], owner[owner >= 0]
    keys, group = grouped(_key(host, owner))
    kernel_ns = summed(group, device.dur_ns[rows], len(keys)).tolist()
    kernel_count = counted(group, len(keys)).tolist()
    is_tf32 = matching(
        timeline, device.name[rows], lambda name: any(mark in name.lower() for mark in _TF32_MARKS)
    )
    tf32 = counted(group[is_tf32], len(keys)).tolist()
    calls = counted(np.searchsorted(keys, _key(host, distinct(owner))), len(keys)).tolist()
    return [
        CallGroup(
            timeline.names[key >> 32],
            timeline.arguments[key & _LOW],
            calls[i],
            kernel_count[i],
            kernel_ns[i],
            tf32[i] > 0,
        )
        for i, key in enumerate(keys.tolist())
    ]


def _owners(nesting: Nesting, is_modelled: Mask, call: Int32) -> Int32:
    """Return the innermost operator of known cost around each call; -1 for none.

    It owns a kernel: `addmm`, not the `linear` around it.
    """
    owner = np.full(len(call), -1, dtype=np.int32)
    open_, row = np.arange(len(call)), call
    while len(row):
        modelled = is_modelled[row]
        owner[open_[modelled]] = row[modelled]
        open_, row = open_[~modelled], nesting.parent[row[~modelled]]
        open_, row = open_[row >= 0], row[row >= 0]
    return owner


def _key(host: HostEvents, rows: Int32 | Int64) -> Int64:
    """Return a number for name and arguments of some host rows."""
    return (host.name[rows].astype(np.int64) << 32) + host.arguments[rows]
