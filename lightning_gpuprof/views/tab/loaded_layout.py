"""A layout kept for the requests that cut it, and what they look up in it."""

from functools import cached_property
from typing import Any

import numpy as np

from lightning_gpuprof.analysis.timeline.call_tree import CallTree
from lightning_gpuprof.analysis.timeline.cut import LayoutCutter
from lightning_gpuprof.analysis.timeline.layout import Layout
from lightning_gpuprof.arrays import Mask

MEMORY_POINTS = 2_000


class LoadedLayout:
    """One layout with the texts of its operator arguments and its call tree."""

    def __init__(self, layout: Layout, arguments: tuple[str, ...], tree: CallTree) -> None:
        self.tree = tree
        self.layout = layout
        self.cutter = LayoutCutter(layout)
        self._arguments = arguments

    @cached_property
    def once(self) -> Mask:
        """Mask of the events less those drawn a second time, as host syncs are."""
        mask = np.ones(len(self.layout), dtype=np.bool_)
        for group in self.layout.groups:
            if group.kind == "syncs":
                first, last = self.layout.lane_first[[group.first, group.first + group.lanes]]
                mask[first:last] = False
        return mask

    def found(self, text: str) -> Mask:
        """Return a mask of the events whose names hold a text, whatever its case."""
        names = [i for i, name in enumerate(self.layout.names) if text.lower() in name.lower()]
        return np.isin(self.layout.name, names)

    def lane_of(self, event: int) -> int:
        """Return the lane that an event lies in."""
        return int(np.searchsorted(self.layout.lane_first, event, side="right")) - 1

    def argument_text(self, event: int) -> str | None:
        """Return the inputs that an operator was called with, None where not recorded."""
        index = int(self.layout.arguments[event]) if event >= 0 else -1
        return self._arguments[index] if index >= 0 else None

    def around(self, event: int) -> list[int]:
        """Return the events around one, innermost first."""
        found = []
        event = int(self.layout.parent[event])
        while event >= 0:
            found.append(event)
            event = int(self.layout.parent[event])
        return found

    def memory_tracks(self) -> list[dict[str, Any]]:
        """Return allocated and reserved bytes over time, by device, thinned to their peaks."""
        memory = self.layout.memory
        tracks = []
        devices = np.unique(memory.device).tolist()
        # Host memory is of interest where there is no other.
        for device in [one for one in devices if one >= 0] or devices:
            rows = np.flatnonzero((memory.device == device) & (memory.allocated_bytes >= 0))
            if not len(rows):
                continue
            starts = np.unique(np.linspace(0, len(rows), MEMORY_POINTS, endpoint=False, dtype=int))
            allocated = np.maximum.reduceat(memory.allocated_bytes[rows], starts).tolist()
            reserved = np.maximum.reduceat(memory.reserved_bytes[rows], starts).tolist()
            tracks.append(
                {
                    "device": device,
                    "start_ns": memory.start_ns[rows][starts].tolist(),
                    "allocated_bytes": allocated,
                    "reserved_bytes": None if min(reserved) < 0 else reserved,
                }
            )
        return tracks
