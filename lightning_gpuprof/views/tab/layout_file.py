"""A laid-out timeline in a file beside its trace: numpy's archive of columns and a JSON head.

A file of another layout number, written by another version, is made again from its trace.
"""

import zipfile
from collections.abc import Sequence
from dataclasses import asdict, fields
from io import BytesIO

import msgspec
import numpy as np

from lightning_gpuprof.analysis.timeline.call_tree import CallTree, call_tree
from lightning_gpuprof.analysis.timeline.layout import KINDS, LaneGroup, Layout, lay_out
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.files import LAYOUT_SUFFIX, written_whole
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import MemoryEvents, OpArguments

LAYOUT = 3
MAX_TEXT = 1_000
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
        zipfile.BadZipFile,
        msgspec.MsgspecError,
        EOFError,
        KeyError,
        TypeError,
        ValueError,
    ) as error:
        raise LayoutFileError(f"no whole layout: {error}") from error


def write_layout(trace_path: str) -> str:
    """Lay a trace's events out in lanes and write the file beside it; return its path."""
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


def _narrow(values: Int64) -> "np.ndarray[tuple[int], np.dtype[np.signedinteger]]":
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    widths = (np.int8, np.int16, np.int32, np.int64)
    return values.astype(
        next(w for w in widths if np.iinfo(w).min <= low and high <= np.iinfo(w).max)
    )
