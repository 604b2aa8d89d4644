"""Finds the source line and the module of host work, if stacks were recorded."""

import re
import sys

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import matching, sums_by_name
from lightning_gpuprof.analysis.trace.linked_trace import Launches, nest
from lightning_gpuprof.analysis.trace_tables import PlaceRow, SourceLine
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, Timeline

_FRAME = r"^(?P<file>[^<].*)\((?P<line>\d+)\): (?P<function>.*)$"
_MODULE = "nn.Module: "
_LIBRARIES = frozenset(sys.stdlib_module_names) | {
    "torch", "torchvision", "torchaudio", "torchmetrics", "functorch", "triton", "numpy",
    "lightning", "pytorch_lightning", "lightning_fabric", "lightning_utilities",
    "lightning_gpuprof", "tqdm", "frozen",
}  # fmt: skip


class CodePlaces(Struct, frozen=True):
    """For each host row, the row of the user's innermost frame and of the innermost module.

    Rows are -1 where there is none. Work of the backward pass, which runs on a thread without
    frames, has those of the forward operator that it belongs to.
    """

    frame: Int64
    module: Int64

    def at(self, timeline: Timeline, row: int) -> SourceLine | None:
        """Return the line of the user's code that a host row belongs to."""
        frame = int(self.frame[row]) if row >= 0 else -1
        return parse_frame(timeline.names[int(timeline.host.name[frame])]) if frame >= 0 else None


def code_places(timeline: Timeline) -> CodePlaces | None:
    """Find the frames and modules around all host work; None if no stacks were read."""
    host = timeline.host
    calls = host.category == CATEGORY_ID["python_function"]
    if not calls.any():
        return None
    is_own = calls & matching(timeline, host.name, is_own_code)
    is_module = calls & matching(timeline, host.name, lambda name: name.startswith(_MODULE))
    rows = np.arange(len(host))
    nesting = nest(host, python=True)
    frame = nesting.inherited(np.where(is_own, rows, -1))
    module = nesting.inherited(np.where(is_module, rows, -1))
    forward = nesting.inherited(_forward_rows(timeline))
    borrowed = forward >= 0
    frame = np.where((frame < 0) & borrowed, frame[forward], frame)
    module = np.where((module < 0) & borrowed, module[forward], module)
    return CodePlaces(frame, module)


def parse_frame(name: str) -> SourceLine | None:
    """Return a Python call's source line; None for a built-in or a module.

    >>> parse_frame("train.py(41): main")
    SourceLine(file='train.py', line=41, function='main')
    """
    match = re.match(_FRAME, name)
    if match is None:
        return None
    return SourceLine(match["file"], int(match["line"]), match["function"])


def is_own_code(name: str) -> bool:
    """Return whether a Python call is of the user's code, not of a well-known library's.

    >>> is_own_code("models/net.py(7): forward"), is_own_code("torch/nn/functional.py(3): linear")
    (True, False)
    """
    line = parse_frame(name)
    if line is None:
        return False
    path = line.file.replace("\\\\", "/").lstrip("/")
    package = path.split("site-packages/")[-1].split("dist-packages/")[-1]
    if re.search(r"/lib/python3[.\d]*/", line.file) and package == path:
        return False
    return package.split("/")[0].removesuffix(".py").strip("<>") not in _LIBRARIES


def _forward_rows(timeline: Timeline) -> Int64:
    """Return for each host row that an autograd arrow ends at the row where it starts."""
    host, flows = timeline.host, timeline.flows
    result = np.full(len(host), -1, dtype=np.int64)
    begun = np.flatnonzero(flows.is_start == 1)
    ended = np.flatnonzero(flows.is_start == 0)
    if not len(begun) or not len(ended):
        return result
    begun = begun[np.argsort(flows.id[begun], kind="stable")]
    at = np.minimum(np.searchsorted(flows.id[begun], flows.id[ended]), len(begun) - 1)
    same = flows.id[begun[at]] == flows.id[ended]
    source = _rows_at(timeline, begun[at[same]])
    target = _rows_at(timeline, ended[same])
    joined = (source >= 0) & (target >= 0)
    result[target[joined]] = source[joined]
    return result


def _rows_at(timeline: Timeline, flow: Int64) -> Int64:
    """Return the operator that starts where an arrow's end is attached; -1 for none."""
    host, flows = timeline.host, timeline.flows
    ops = np.flatnonzero(host.category == CATEGORY_ID["cpu_op"])
    if not len(ops):
        return np.full(len(flow), -1, dtype=np.int64)
    low = np.searchsorted(host.start_ns[ops], flows.start_ns[flow])
    result = np.full(len(flow), -1, dtype=np.int64)
    for offset in range(4):  # operators of other threads, or nested ones, may start just then
        at = np.minimum(low + offset, len(ops) - 1)
        row = ops[at]
        fits = (host.start_ns[row] == flows.start_ns[flow]) & (
            host.thread[row] == flows.thread[flow]
        )
        result = np.where((result < 0) & fits, row, result)
    return result


def device_time_by_place(
    timeline: Timeline, launches: Launches, rows: Int64, *, modules: bool
) -> tuple[PlaceRow, ...]:
    """Sum device time by the frame or module that launched it, longest first."""
    launched = launches.call >= 0
    place = rows[launches.call[launched]]
    known = place >= 0
    name = timeline.host.name[place[known]]
    dur = timeline.device.dur_ns[launched][known]
    return tuple(
        PlaceRow(
            sums.name.removeprefix(_MODULE),
            None if modules else parse_frame(sums.name),
            sums.count,
            sums.total_ns,
        )
        for sums in sums_by_name(timeline.names, name, dur)
    )
