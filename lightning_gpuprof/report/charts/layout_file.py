"""A laid-out timeline in a file beside its trace: numpy's archive of columns and a JSON head.

A file of another layout number, written by another version, is made again from its trace.
"""

import zipfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from io import BytesIO

import msgspec
import numpy as np

from lightning_gpuprof.analysis.timeline.call_tree import CallTree, call_tree, first_of_each
from lightning_gpuprof.analysis.timeline.cut import LayoutCutter
from lightning_gpuprof.analysis.timeline.layout import KIND_ID, KINDS, LaneGroup, Layout, lay_out
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import LAYOUT_SUFFIX, MOST_BYTES, written_whole
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import MemoryEvents, OpArguments

LAYOUT = 3
MAX_TEXT, MOST_EVENTS = 1_000, 4_000_000
"""This many events take a quarter of a GiB in the process that shows them."""
_EVENT_COLUMNS = "lane_first start_ns dur_ns name kind parent partner arguments".split()


class LayoutFileError(ValueError):
    """The file has another layout, or is incomplete."""


def pack(layout: Layout, argument_texts: Sequence[str], tree: CallTree) -> bytes:
    """Return the content of a file with a layout and the call tree summed up from it."""
    columns = {name: getattr(layout, name) for name in _EVENT_COLUMNS}
    columns |= {f"memory.{f.name}": getattr(layout.memory, f.name) for f in fields(MemoryEvents)}
    columns |= {f"tree.{f.name}": getattr(tree, f.name) for f in fields(CallTree)}
    head = {
        "layout": LAYOUT,
        "kinds": KINDS,
        "span": layout.span,
        "names": list(layout.names),
        "groups": [asdict(group) for group in layout.groups],
        "arguments": list(argument_texts),
    }
    narrow = {name: _narrow(values) for name, values in columns.items()}
    content = BytesIO()
    encoded = np.frombuffer(msgspec.json.encode(head), np.uint8)
    np.savez_compressed(content, head=encoded, **narrow)  # type: ignore[arg-type]
    return content.getvalue()


def unpack(content: bytes) -> tuple[Layout, tuple[str, ...], CallTree]:
    """Return the layout, the texts of its operator arguments and its call tree."""
    try:
        with np.load(BytesIO(content)) as file:
            if sum(part.file_size for part in file.zip.infolist()) > MOST_BYTES:
                raise LayoutFileError(f"it unpacks to more than {MOST_BYTES >> 20} MiB")
            head = msgspec.json.decode(file["head"].tobytes())
            if head["layout"] != LAYOUT or tuple(head["kinds"]) != KINDS:
                raise LayoutFileError("made by another version")
            columns = {name: file[name].astype(np.int64) for name in file.files if name != "head"}
        memory = {f.name: columns.pop(f"memory.{f.name}") for f in fields(MemoryEvents)}
        tree = CallTree(**{f.name: columns.pop(f"tree.{f.name}") for f in fields(CallTree)})
        layout = Layout(
            span=tuple(head["span"]),
            names=head["names"],
            groups=tuple(LaneGroup(**group) for group in head["groups"]),
            memory=MemoryEvents(**memory),
            **columns,
        )
        return layout, tuple(head["arguments"]), tree
    except (
        *(AttributeError, EOFError, LookupError, MemoryError, OSError, RuntimeError, TypeError),
        *(ValueError, msgspec.MsgspecError, zipfile.BadZipFile, zlib.error),
    ) as error:
        raise LayoutFileError(f"incomplete layout: {error}") from error


def write_layout(trace_path: str) -> str:
    """Lay a trace's events out in lanes and write the file beside it; return its path."""
    timeline = open_timeline(trace_path, ReadOptions(stacks=True, memory=True))
    layout = lay_out(timeline)
    if len(layout) > MOST_EVENTS:
        raise TraceError(
            f"{trace_path} holds {len(layout):,} events; the timeline shows at most "
            f"{MOST_EVENTS:,}. Open it in Perfetto, or record fewer steps."
        )
    texts = [argument_text(arguments) for arguments in timeline.arguments]
    path = trace_path + LAYOUT_SUFFIX
    with written_whole(path) as part, open(part, "wb") as file:
        file.write(pack(layout, texts, call_tree(layout)))
    return path


def argument_text(arguments: OpArguments) -> str:
    """Return an operator's recorded inputs as one line.

    >>> argument_text(OpArguments(dims=([8, 4], []), dtypes=("float", "Scalar"), values=("", "2")))
    'float[8, 4], Scalar 2'
    """
    parts = []
    for index, dtype in enumerate(arguments.dtypes or [""] * len(arguments.dims)):
        shape = arguments.dims[index] if index < len(arguments.dims) else None
        value = arguments.values[index] if index < len(arguments.values) else ""
        parts.append(f"{dtype}{shape if shape else ''} {value}".strip() or "none")
    return ", ".join(parts)[:MAX_TEXT]


def _narrow(values: Int64) -> "np.ndarray[tuple[int], np.dtype[np.signedinteger]]":
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    widths = (np.int8, np.int16, np.int32, np.int64)
    return values.astype(
        next(w for w in widths if np.iinfo(w).min <= low and high <= np.iinfo(w).max)
    )


MEMORY_POINTS, MOST_AROUND = 2_000, 1_000


class MemoryTrack(msgspec.Struct, frozen=True):
    """A device's memory over time, thinned to its peaks; device -1 is the host."""

    device: int
    start_ns: list[int]
    allocated_bytes: list[int]
    reserved_bytes: list[int] | None


class LoadedLayout:
    """One layout with the texts of its operator arguments and its call tree."""

    def __init__(self, layout: Layout, arguments: tuple[str, ...], tree: CallTree) -> None:
        self.tree = tree
        self.layout = layout
        self.cutter = LayoutCutter(layout)
        self._arguments = arguments

    def matching(self, text: str) -> Mask:
        """Return a mask of the events whose names contain a text, ignoring case."""
        names = [i for i, name in enumerate(self.layout.names) if text.lower() in name.lower()]
        return np.isin(self.layout.name, names)

    def argument_text(self, event: int) -> str | None:
        """Return the inputs of an operator's call; None if they were not recorded."""
        index = int(self.layout.arguments[event]) if event >= 0 else -1
        return self._arguments[index] if index >= 0 else None

    def around(self, event: int) -> list[int]:
        """Return the events around an event, innermost first."""
        outer: list[int] = []
        event = int(self.layout.parent[event])
        while event >= 0 and len(outer) < MOST_AROUND:
            outer.append(event)
            event = int(self.layout.parent[event])
        return outer

    def operator_bytes(self) -> dict[str, int]:
        """Return by operator the bytes that were allocated while it was the innermost one.

        Events of the allocator name no thread. They count for the operator that began last among
        those that are still running.
        """
        layout, memory = self.layout, self.layout.memory
        ops = np.flatnonzero((layout.kind == KIND_ID["operator"]) & first_of_each(layout))
        ops = ops[np.argsort(layout.start_ns[ops], kind="stable")]
        ends_ns = layout.start_ns + layout.dur_ns
        num_bytes: Counter[str] = Counter()
        # Host memory is counted only if no device memory was recorded.
        for device in [number for number in np.unique(memory.device) if number >= 0] or [-1]:
            marks = np.flatnonzero((memory.device == device) & (memory.allocated_bytes >= 0))
            grown = np.diff(memory.allocated_bytes[marks], prepend=0)
            marks, grown = marks[1:][grown[1:] > 0], grown[1:][grown[1:] > 0]
            at_ns = memory.start_ns[marks]
            last = np.searchsorted(layout.start_ns[ops], at_ns, side="right")
            event = np.append(-1, ops)[last]
            while (over := (event >= 0) & (ends_ns[event] < at_ns)).any():
                event = np.where(over, layout.parent[event], event)
            sums = np.bincount(layout.name[event[event >= 0]], grown[event >= 0])
            num_bytes.update({layout.names[i]: int(sums[i]) for i in np.flatnonzero(sums).tolist()})
        return dict(num_bytes)

    def memory_tracks(self) -> list[MemoryTrack]:
        """Return allocated and reserved bytes over time, by device, thinned to their peaks."""
        memory = self.layout.memory
        tracks = []
        devices = np.unique(memory.device).tolist()
        # Host memory is counted only if no device memory was recorded.
        for device in [number for number in devices if number >= 0] or devices:
            rows = np.flatnonzero((memory.device == device) & (memory.allocated_bytes >= 0))
            if not len(rows):
                continue
            starts = np.unique(np.linspace(0, len(rows), MEMORY_POINTS, endpoint=False, dtype=int))
            allocated = np.maximum.reduceat(memory.allocated_bytes[rows], starts).tolist()
            reserved = np.maximum.reduceat(memory.reserved_bytes[rows], starts).tolist()
            tracks.append(
                MemoryTrack(
                    device=device,
                    start_ns=memory.start_ns[rows][starts].tolist(),
                    allocated_bytes=allocated,
                    reserved_bytes=None if min(reserved) < 0 else reserved,
                )
            )
        return tracks
