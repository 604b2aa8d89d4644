"""Sums up calls over a trace: a tree of names with host and device time."""

from dataclasses import dataclass

import numpy as np

from lightning_gpuprof.analysis.timeline.layout import KIND_ID, Layout, follow
from lightning_gpuprof.analysis.trace.grouping import counted, summed
from lightning_gpuprof.arrays import Int64, Mask

MAX_NODES = 3_000
STEP = "ProfilerStep#"
_HOST = tuple(
    KIND_ID[kind] for kind in ("operator", "annotation", "runtime", "sync", "allocator", "python")
)


@dataclass(frozen=True)
class CallTree:
    """Nodes by index; a parent stands before its children. Times include what lies below."""

    name: Int64
    kind: Int64
    parent: Int64
    count: Int64
    host_ns: Int64
    device_ns: Int64

    def __len__(self) -> int:
        return len(self.name)


def call_tree(layout: Layout) -> CallTree:
    """Merge calls with the same names from the top down; the smallest nodes are left out."""
    node = np.full(len(layout), -1, dtype=np.int64)
    levels: list[tuple[Int64, Int64, Int64, Int64]] = []
    own, names = first_of_each(layout), _merged_names(layout)
    events = np.flatnonzero(own & np.isin(layout.kind, _HOST) & (layout.parent < 0))
    total = 0
    children = _Children(layout, own)
    while len(events):
        above = follow(node, layout.parent[events])
        keys, first, group = np.unique(
            np.stack((above, names[events])), axis=1, return_index=True, return_inverse=True
        )
        group = group.reshape(-1)
        node[events] = total + group
        host_ns = summed(group, layout.dur_ns[events], keys.shape[1])
        levels.append((keys[0], keys[1], layout.kind[events[first]], host_ns))
        total += keys.shape[1]
        events = children(events)
    if not levels:
        return CallTree(*[np.zeros(0, dtype=np.int64)] * 6)
    parent, name, kind, host = (np.concatenate(column) for column in zip(*levels, strict=True))
    calls = counted(node[node >= 0], total)
    device = _device_time(layout, node, parent)
    return _largest(CallTree(name, kind, parent, calls, host, device), MAX_NODES)


def _merged_names(layout: Layout) -> Int64:
    """Return each event's name, with all profiler steps under the name of one."""
    steps = [i for i, name in enumerate(layout.names) if name.startswith(STEP)]
    same = np.arange(len(layout.names), dtype=np.int64)
    same[steps] = steps[0] if steps else 0
    names: Int64 = same[layout.name]
    return names


def first_of_each(layout: Layout) -> Mask:
    """Return a mask of the events less those drawn a second time among the host syncs."""
    mask = np.ones(len(layout), dtype=np.bool_)
    for group in layout.groups:
        if group.kind == "syncs":
            first, last = layout.lane_first[[group.first, group.first + group.lanes]]
            mask[first:last] = False
    return mask


class _Children:
    def __init__(self, layout: Layout, own: Mask) -> None:
        inside = np.flatnonzero(own & (layout.parent >= 0))
        order = np.argsort(layout.parent[inside], kind="stable")
        self._events = inside[order]
        self._parents = layout.parent[self._events]

    def __call__(self, events: Int64) -> Int64:
        """Return the events directly inside some events."""
        low = np.searchsorted(self._parents, events, side="left")
        count = np.searchsorted(self._parents, events, side="right") - low
        offsets = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        children: Int64 = self._events[np.repeat(low, count) + offsets]
        return children


def _device_time(layout: Layout, node: Int64, parent: Int64) -> Int64:
    """Sum up each node's device time, what lies below included."""
    first, last = KIND_ID["memcpy"], KIND_ID["kernel_other"]
    ran = (layout.kind >= first) & (layout.kind <= last) & (layout.partner >= 0)
    launch = node[layout.partner[ran]]
    total = summed(launch[launch >= 0], layout.dur_ns[ran][launch >= 0], len(parent))
    for index in range(len(parent) - 1, -1, -1):
        if parent[index] >= 0:
            total[parent[index]] += total[index]
    return total


def _largest(tree: CallTree, limit: int) -> CallTree:
    """Keep the nodes with the most time; a node is only kept with all nodes above it."""
    if len(tree) <= limit:
        return tree
    # Neither time of a node exceeds its parent's, but for overlaps: take the larger share, and
    # at equal shares the node nearer to the top, which stands first.
    share = np.maximum(
        tree.host_ns / max(1, int(tree.host_ns.max())),
        tree.device_ns / max(1, int(tree.device_ns.max())),
    )
    keep = np.zeros(len(tree), dtype=np.bool_)
    keep[np.argsort(-share, kind="stable")[:limit]] = True
    for index in range(len(tree)):
        above = tree.parent[index]
        keep[index] &= bool(above < 0 or keep[above])
    number = np.append(np.cumsum(keep) - 1, -1)  # for index -1
    columns = {name: column[keep] for name, column in vars(tree).items()}
    return CallTree(**{**columns, "parent": number[columns["parent"]]})
