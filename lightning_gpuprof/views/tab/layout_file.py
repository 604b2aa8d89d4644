"""A laid-out timeline in a file beside its trace.

A line of JSON describes the compressed columns after it. A file of another layout number,
written by another version of this package, is made again from its trace.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import msgspec
import numpy as np

from lightning_gpuprof.analysis.timeline.call_tree import CallTree, call_tree
from lightning_gpuprof.analysis.timeline.layout import KINDS, LaneGroup, Layout, lay_out
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.files import LAYOUT_SUFFIX, written_whole
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import MemoryEvents, OpArguments

LAYOUT = 1
_FAST = 1
_EVENT_COLUMNS = (
    "lane_first",
    "start_ns",
    "dur_ns",
    "name",
    "kind",
    "parent",
    "partner",
    "arguments",
)


class LayoutFileError(ValueError):
    """Not a file of this layout, or not whole."""


def pack(layout: Layout, argument_texts: Sequence[str], tree: CallTree) -> bytes:
    """Return a layout and what is summed up of it as a file's content."""
    columns = {name: getattr(layout, name) for name in _EVENT_COLUMNS}
    columns |= {f"memory.{f.name}": getattr(layout.memory, f.name) for f in fields(MemoryEvents)}
    columns |= {f"tree.{f.name}": getattr(tree, f.name) for f in fields(CallTree)}
    described, bodies = [], []
    for name, values in columns.items():
        dtype, delta, raw = _small(values.astype(np.int64))
        bodies.append(zlib.compress(raw, _FAST))
        described.append([name, dtype, delta, len(bodies[-1])])
    head = {
        "layout": LAYOUT,
        "kinds": KINDS,
        "span": layout.span,
        "names": list(layout.names),
        "groups": [asdict(group) for group in layout.groups],
        "arguments": list(argument_texts),
        "columns": described,
    }
    return msgspec.json.encode(head) + b"\n" + b"".join(bodies)


def unpack(content: bytes) -> tuple[Layout, tuple[str, ...], CallTree]:
    """Return the layout, the texts of its operator arguments and its call tree.

    Raises:
        LayoutFileError: The content is of another layout, or torn.
    """
    line, _, body = content.partition(b"\n")
    try:
        head = msgspec.json.decode(line)
        if head["layout"] != LAYOUT:
            raise LayoutFileError(f"of layout {head['layout']}, not {LAYOUT}")
        if tuple(head["kinds"]) != KINDS:
            raise LayoutFileError("made by a version that knew other kinds of events")
        columns = _columns(head["columns"], memoryview(body))
        memory = {f.name: columns.pop(f"memory.{f.name}") for f in fields(MemoryEvents)}
        tree = CallTree(**{f.name: columns.pop(f"tree.{f.name}") for f in fields(CallTree)})
        layout = Layout(
            span=tuple(head["span"]),
            names=head["names"],
            groups=tuple(LaneGroup(**group) for group in head["groups"]),
            memory=MemoryEvents(**memory),  # type: ignore[arg-type]
            **columns,
        )
        return layout, tuple(head["arguments"]), tree
    except (msgspec.MsgspecError, zlib.error, KeyError, TypeError, IndexError) as error:
        raise LayoutFileError(f"no whole layout: {error}") from error


def _columns(described: Sequence[Sequence[Any]], body: memoryview) -> dict[str, Int64]:
    found, at = {}, 0
    for name, dtype, delta, length in described:
        raw = zlib.decompress(body[at : at + length])
        values = np.frombuffer(raw, dtype=dtype).astype(np.int64)
        found[name] = np.cumsum(values) if delta else values
        at += length
    return found


def _small(values: Int64) -> tuple[str, bool, bytes]:
    """Return the narrowest form of a column: its dtype, whether of differences, its bytes."""
    steps = np.diff(values, prepend=0)
    narrow, narrow_steps = _dtype(values), _dtype(steps)
    if narrow_steps < narrow or (narrow == "<i8" and narrow_steps == "<i8"):
        return narrow_steps, True, steps.astype(narrow_steps).tobytes()
    return narrow, False, values.astype(narrow).tobytes()


def _dtype(values: Int64) -> str:
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    for dtype, bits in (("<i1", 7), ("<i2", 15), ("<i4", 31)):
        if -(2**bits) <= low and high < 2**bits:
            return dtype
    return "<i8"


MAX_TEXT = 1_000


def write_layout(trace_path: str) -> str:
    """Lay a trace's events out in lanes and write the file beside it; return its path.

    Raises:
        TraceError: The trace cannot be read, or is of no known kind.
        OSError: The file cannot be written.
    """
    timeline = open_timeline(trace_path, ReadOptions(stacks=True, memory=True))
    layout = lay_out(timeline)
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
