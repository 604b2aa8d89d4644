"""Operators by name: host time, and the device time of what they launched."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lightning_gpuprof.analysis.grouping import summed
from lightning_gpuprof.analysis.launch_join import Launches
from lightning_gpuprof.analysis.nesting import Nesting
from lightning_gpuprof.analysis.trace_steps import is_step
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Int32, Int64, Timeline, of_category

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class OperatorStats:
    """All calls of operators with one name.

    Args:
        name: As recorded, such as `aten::mm`.
        count: Calls.
        total_ns: Host time, operators called inside included; a call inside one of the same
            name is not counted twice.
        self_ns: Host time outside operators called inside; runtime calls count as its own.
        device_total_ns: Device time of all that was launched inside; None on a trace
            without device events.
        device_self_ns: Device time of what was launched with no operator in between.
        device_count: Number of device events with no operator in between.
    """

    name: str
    count: int
    total_ns: int
    self_ns: int
    device_total_ns: int | None
    device_self_ns: int | None
    device_count: int | None


def operator_table(
    timeline: Timeline, nesting: Nesting, launches: Launches
) -> tuple[OperatorStats, ...]:
    """Sum up operators by name, longest own host time first."""
    host = timeline.host
    steps = np.array([is_step(name) for name in timeline.names] or [False])
    is_op = (host.category == CATEGORY_ID["cpu_op"]) & ~steps[host.name]
    rows = np.flatnonzero(is_op)
    if not len(rows):
        return ()
    inner = of_category(host, "cpu_op", "user_annotation")
    length = nesting.end_ns - host.start_ns
    own = length - nesting.children_sum(np.where(inner, length, 0))
    group, names = host.name[rows], len(timeline.names)
    count = np.bincount(group, minlength=names)
    outermost = ~_inside_own_name(host.name, nesting.parent, rows)
    total = summed(group, host.dur_ns[rows] * outermost, names)
    self_time = summed(group, own[rows], names)
    device = _device_time(timeline, nesting, launches, is_op) if len(timeline.device) else None
    by_name: list[Int64 | None] = [None] * 3
    if device:
        inside, direct, events = (column[rows] for column in device)
        columns = (inside * outermost, direct, events)
        by_name = [summed(group, column, names) for column in columns]
    table = [
        OperatorStats(
            timeline.names[i],
            int(count[i]),
            int(total[i]),
            int(self_time[i]),
            *(None if column is None else int(column[i]) for column in by_name),
        )
        for i in np.flatnonzero(count).tolist()
    ]
    return tuple(sorted(table, key=lambda row: (-row.self_ns, row.name)))


def _inside_own_name(name: Int32, parent: Int32, rows: Int64) -> Mask:
    """Return which of the rows lie inside a row of the same name, at any depth."""
    inside = np.zeros(len(rows), dtype=np.bool_)
    active, above = np.arange(len(rows)), parent[rows]
    while len(active):
        active, above = active[above >= 0], above[above >= 0]
        same = name[above] == name[rows[active]]
        inside[active[same]] = True
        active, above = active[~same], parent[above[~same]]
    return inside


def _device_time(
    timeline: Timeline, nesting: Nesting, launches: Launches, is_op: Mask
) -> tuple[Int64, Int64, Int64]:
    """Return device time inside, device time of its own and events of its own, per host row."""
    op_of_row = nesting.inherited(np.where(is_op, np.arange(len(is_op)), -1))
    launched = launches.call >= 0
    owner = op_of_row[launches.call[launched]]
    dur = timeline.device.dur_ns[launched][owner >= 0]
    owner = owner[owner >= 0]
    own = summed(owner, dur, len(is_op))
    events: Int64 = np.bincount(owner, minlength=len(is_op))
    return nesting.subtree_sum(own), own, events
