"""Operators by name: host time, and the device time of what they launched."""

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import counted, named, summed
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, Nesting
from lightning_gpuprof.analysis.trace.step_marks import is_step
from lightning_gpuprof.analysis.trace_tables import OperatorRow
from lightning_gpuprof.arrays import Int8, Int32, Int64, Mask
from lightning_gpuprof.records.phases import TRANSFER_HOOKS, Phase
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline, of_category

ENGINE = "autograd::engine::evaluate_function: "
ACCUMULATE = "AccumulateGrad"
_FREE = frozenset(
    f"aten::{name}"
    for name in """as_strided transpose t view view_as _unsafe_view reshape _reshape_alias expand
    expand_as slice select unsqueeze squeeze permute detach alias empty empty_like empty_strided
    resize_ narrow split chunk unbind contiguous to _to_copy linear matmul flatten unflatten movedim
    result_type lift_fresh new_empty new_zeros zeros zeros_like ones ones_like scalar_tensor
    resolve_conj resolve_neg is_nonzero item _local_scalar_dense""".split()
) | {"detach"}
"""Calls that move no data, or only call another operator that is counted."""


def computes(name: str) -> bool:
    """Return whether calls of an operator compute something and are not counted elsewhere."""
    # The engine's mark around each node would count the node twice.
    return name not in _FREE and not name.startswith(ENGINE)


def repeated_nodes(timeline: Timeline, nesting: Nesting) -> Int64:
    """Return the rows of host events that are the engine's calls of a node that ran before.

    torch records one arrow from an operator to its node, however often the node runs: a run that no
    arrow reaches is another pass. Accumulation of gradients has no operator, and is left out.
    """
    host, flows = timeline.host, timeline.flows
    engine = named(timeline, lambda name: name.startswith(ENGINE) and ACCUMULATE not in name)
    if not engine.any() or not len(flows):
        return np.zeros(0, dtype=np.int64)
    ends = flows.is_start == 0
    places = set(zip(flows.thread[ends].tolist(), flows.start_ns[ends].tolist(), strict=True))
    called = np.flatnonzero(engine)
    # An arrow ends where the node begins, which the engine's call is the parent of.
    nodes = np.flatnonzero((nesting.parent >= 0) & engine[nesting.parent])
    begun = zip(host.thread[nodes].tolist(), host.start_ns[nodes].tolist(), strict=True)
    reached = nodes[[place in places for place in begun]]
    again: Int64 = called[~np.isin(called, nesting.parent[reached])]
    return again


STEP = "Optimizer.step"
"""How torch names the region around an optimizer's step."""


def in_updates(timeline: Timeline, nesting: Nesting, in_step: Mask) -> Mask:
    """Return which host events of an optimizer's step come after the backward pass inside it.

    Lightning passes forward and backward to the optimizer as a closure; they are not the update.
    """
    host = timeline.host
    rows = np.flatnonzero(named(timeline, lambda name: name.startswith(STEP)))
    if not len(rows):
        return in_step
    rows = rows[np.argsort(host.start_ns[rows], kind="stable")]
    nodes = np.flatnonzero(named(timeline, lambda name: name.startswith(ENGINE)))
    first, begins = host.start_ns[rows], host.start_ns[rows].copy()
    within = np.searchsorted(first, host.start_ns[nodes], side="right") - 1
    ended = nesting.end_ns[nodes]
    inside = (within >= 0) & (ended <= nesting.end_ns[rows][within])
    np.maximum.at(begins, within[inside], ended[inside])
    in_update: Mask = in_step.copy()
    events = np.flatnonzero(in_update)
    step = np.searchsorted(first, host.start_ns[events], side="right") - 1
    in_update[events] = host.start_ns[events] >= begins[step]
    return in_update


_REGIONS = ("enumerate(DataLoader)", ENGINE, STEP, *TRANSFER_HOOKS)
"""How torch names the regions around making a batch, a node of the graph and an optimizer's step:
the last may hold the others, as Lightning's closure runs in it. The hooks' are this package's."""
_LOADING, _NODE, _STEP = range(3)


def _regions(timeline: Timeline, nesting: Nesting) -> Int8:
    """Return the innermost of `_REGIONS` that each host event lies in, -1 for none."""
    of_name = [
        next((i for i, prefix in enumerate(_REGIONS) if name.startswith(prefix)), -1)
        for name in timeline.names
    ]
    return nesting.inherited(np.array(of_name, dtype=np.int8)[timeline.host.name])


def host_phases(timeline: Timeline, nesting: Nesting) -> tuple[tuple[Phase, ...], Int64]:
    """Return the phases that operators can be told to be in, and the index of each host event's.

    What is in no other of them counts as forward.
    """
    region = _regions(timeline, nesting)
    phases = (
        (Phase.BACKWARD, region == _NODE),
        (Phase.OPTIMIZER_STEP, in_updates(timeline, nesting, region == _STEP)),
        (Phase.DATA_WAIT, region == _LOADING),
        (Phase.HOST_TO_DEVICE, region > _STEP),
    )
    index = np.zeros(len(region), dtype=np.int64)
    for number, (_, events) in enumerate(phases, start=1):
        index[events] = number
    return (Phase.FORWARD, *(phase for phase, _ in phases)), index


def operator_table(trace: LinkedTrace) -> tuple[OperatorRow, ...]:
    """Sum up operators by name, longest own host time first."""
    timeline, nesting, host = trace.timeline, trace.nesting, trace.timeline.host
    is_op = (host.category == CATEGORY_ID["cpu_op"]) & ~named(timeline, is_step)
    ops = np.flatnonzero(is_op).astype(np.int32)
    if not len(ops):
        return ()
    region = _regions(timeline, nesting)
    names = len(timeline.names)
    outermost, in_update = is_op.copy(), in_updates(timeline, nesting, region == _STEP) & is_op
    outermost[ops] = ~_inside_own_name(host.name, nesting.parent, ops)
    nodes = ops[region[ops] == _NODE]
    whole, whole_nodes = ops[outermost[ops]], nodes[outermost[nodes]]
    in_batch = ops[(region[ops] == _LOADING) | (region[ops] > _STEP)]
    again = repeated_nodes(timeline, nesting)
    columns = {
        "count": counted(host.name[ops], names),
        "total_ns": summed(host.name[whole], host.dur_ns[whole], names),
        "self_ns": _self_time(timeline, nesting, is_op),
        "loading_count": counted(host.name[in_batch], names),
        "repeated_count": counted(host.name[again], names),
        "repeated_ns": summed(host.name[again], host.dur_ns[again], names),
        "backward_count": counted(host.name[nodes], names),
        "backward_ns": summed(host.name[whole_nodes], host.dur_ns[whole_nodes], names),
        "update_count": counted(host.name[in_update], names),
        "update_self_ns": _self_time(timeline, nesting, in_update),
    }
    if len(timeline.device):
        inside, own, events = _device_time(trace, is_op, outermost)
        columns |= {"device_total_ns": inside, "device_self_ns": own, "device_count": events}
    table = [
        OperatorRow(name=timeline.names[i], **{key: int(of[i]) for key, of in columns.items()})
        for i in np.flatnonzero(columns["count"]).tolist()
    ]
    return tuple(sorted(table, key=lambda row: (-row.self_ns, row.name)))


def _inside_own_name(name: Int32, parent: Int32, rows: Int32) -> Mask:
    """Return which of the rows lie inside a row of the same name, at any depth."""
    inside = np.zeros(len(rows), dtype=np.bool_)
    active, above = np.arange(len(rows), dtype=np.int32), parent[rows]
    while len(active):
        active, above = active[above >= 0], above[above >= 0]
        same = name[above] == name[rows[active]]
        inside[active[same]] = True
        active, above = active[~same], parent[above[~same]]
    return inside


def _self_time(timeline: Timeline, nesting: Nesting, is_op: Mask) -> Int64:
    """Return by name the time of operators less that of what is recorded right inside them."""
    host, names = timeline.host, len(timeline.names)
    counts = of_category(host, "cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
    length_ns = nesting.end_ns - host.start_ns
    time = summed(host.name[is_op], length_ns[is_op], names)
    inside = counts & (nesting.parent >= 0) & is_op[nesting.parent]
    return time - summed(host.name[nesting.parent[inside]], length_ns[inside], names)


def _device_time(trace: LinkedTrace, is_op: Mask, outermost: Mask) -> tuple[Int64, Int64, Int64]:
    """Return by name: device time inside, device time of its own, device events of its own."""
    timeline = trace.timeline
    name, names = timeline.host.name, len(timeline.names)
    inside, own, events = np.zeros((3, names), dtype=np.int64)
    known = trace.launches.call >= 0
    row, dur = trace.launches.call[known], timeline.device.dur_ns[known]
    claimed = np.zeros(len(row), dtype=np.bool_)
    while len(row):
        op, whole = is_op[row], outermost[row]
        direct = op & ~claimed
        own += summed(name[row[direct]], dur[direct], names)
        events += counted(name[row[direct]], names)
        inside += summed(name[row[whole]], dur[whole], names)
        around = trace.nesting.parent[row]
        up = around >= 0
        claimed, dur, row = (claimed | op)[up], dur[up], around[up]
    return inside, own, events
