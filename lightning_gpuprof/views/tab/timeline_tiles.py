"""Prepares a trace for the tab's timeline, once, outside of any request."""

from lightning_gpuprof.analysis.drawing.call_tree import call_tree
from lightning_gpuprof.analysis.drawing.drawing import make_drawing
from lightning_gpuprof.records.files import DRAWING_SUFFIX, written_whole
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import OpArguments
from lightning_gpuprof.views.tab.drawing_file import pack

MAX_TEXT = 1_000


def write_tiles(trace_path: str) -> str:
    """Lay a trace's events out in lanes, write that beside it, and return that file's path.

    Raises:
        TraceError: The trace cannot be read, or is of no known kind.
        OSError: The file cannot be written.
    """
    timeline = open_timeline(trace_path, ReadOptions(stacks=True, memory=True))
    drawing = make_drawing(timeline)
    texts = [argument_text(arguments) for arguments in timeline.arguments]
    path = trace_path + DRAWING_SUFFIX
    with written_whole(path) as part, open(part, "wb") as file:
        file.write(pack(drawing, texts, call_tree(drawing)))
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
