"""A Drawing in a file: a line of JSON that says what follows, then its columns, compressed.

Made and read by the same version of this package: another layout number is no error, the file
is then made again from its trace.
"""

import zlib
from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import msgspec
import numpy as np

from lightning_gpuprof.analysis.drawing.call_tree import CallTree
from lightning_gpuprof.analysis.drawing.drawing import Drawing, LaneGroup
from lightning_gpuprof.analysis.drawing.kinds import KINDS
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import MemoryEvents

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


class DrawingFileError(ValueError):
    """Not a file of this layout, or not whole."""


def pack(drawing: Drawing, argument_texts: Sequence[str], tree: CallTree) -> bytes:
    """Return a drawing and what is summed up of it as a file's content."""
    columns = {name: getattr(drawing, name) for name in _EVENT_COLUMNS}
    columns |= {f"memory.{f.name}": getattr(drawing.memory, f.name) for f in fields(MemoryEvents)}
    columns |= {f"tree.{f.name}": getattr(tree, f.name) for f in fields(CallTree)}
    described, bodies = [], []
    for name, values in columns.items():
        dtype, delta, raw = _small(values.astype(np.int64))
        bodies.append(zlib.compress(raw, _FAST))
        described.append([name, dtype, delta, len(bodies[-1])])
    head = {
        "layout": LAYOUT,
        "kinds": KINDS,
        "span": drawing.span,
        "names": list(drawing.names),
        "groups": [asdict(group) for group in drawing.groups],
        "arguments": list(argument_texts),
        "columns": described,
    }
    return msgspec.json.encode(head) + b"\n" + b"".join(bodies)


def unpack(content: bytes) -> tuple[Drawing, tuple[str, ...], CallTree]:
    """Return the drawing, the texts of its operator arguments and its call tree.

    Raises:
        DrawingFileError: The content is of another layout, or torn.
    """
    line, _, body = content.partition(b"\n")
    try:
        head = msgspec.json.decode(line)
        if head["layout"] != LAYOUT:
            raise DrawingFileError(f"of layout {head['layout']}, not {LAYOUT}")
        if tuple(head["kinds"]) != KINDS:
            raise DrawingFileError("made by a version that knew other kinds of events")
        columns = _columns(head["columns"], memoryview(body))
        memory = {f.name: columns.pop(f"memory.{f.name}") for f in fields(MemoryEvents)}
        tree = CallTree(**{f.name: columns.pop(f"tree.{f.name}") for f in fields(CallTree)})
        drawing = Drawing(
            span=tuple(head["span"]),
            names=head["names"],
            groups=tuple(LaneGroup(**group) for group in head["groups"]),
            memory=MemoryEvents(**memory),  # type: ignore[arg-type]
            **columns,
        )
        return drawing, tuple(head["arguments"]), tree
    except (msgspec.MsgspecError, zlib.error, KeyError, TypeError, IndexError) as error:
        raise DrawingFileError(f"no whole drawing: {error}") from error


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
