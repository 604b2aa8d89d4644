"""Fourier transforms by their lengths: how long one takes depends on the factors of its length."""

import ast
from collections import Counter

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.operators import Regions
from lightning_gpuprof.traces.timeline import MISSING, OpArguments

TRANSFORMS = ("aten::_fft_r2c", "aten::_fft_c2r", "aten::_fft_c2c")
_ASKED = ("aten::fft_fft", "aten::fft_rfft")
"""What is called with a length: a longer one than the tensor's pads it with zeros."""


class Transforms(Struct, frozen=True):
    """All transforms of one length, but for those that make batches or update weights.

    Args:
        lengths: Of each dimension that is transformed.
        count: Calls.
        total_ns: Their host time.
        padded: A tensor is padded to such a length for it, by the transform itself.
    """

    lengths: tuple[int, ...]
    count: int
    total_ns: int
    padded: bool


def transforms(trace: LinkedTrace, regions: Regions) -> tuple[Transforms, ...]:
    """Sum up a CPU's transforms by length, the longest time first; none without shapes."""
    timeline, host = trace.timeline, trace.timeline.host
    if len(timeline.device) or not len(timeline.arguments):
        return ()
    apart = regions.in_batch | regions.in_update
    known = (host.arguments != MISSING) & ~apart
    is_transform = named(timeline, lambda name: name in TRANSFORMS)
    count, total_ns = Counter[tuple[int, ...]](), Counter[tuple[int, ...]]()
    for row in np.flatnonzero(is_transform & known).tolist():
        around = trace.nesting.parent[row]
        if around >= 0 and is_transform[around]:
            continue
        name = timeline.names[host.name[row]]
        lengths = _lengths(name, timeline.arguments[host.arguments[row]])
        if lengths:
            count[lengths] += 1
            total_ns[lengths] += int(host.dur_ns[row])
    asked = np.flatnonzero(named(timeline, lambda name: name in _ASKED) & known).tolist()
    padded = {_padded(timeline.arguments[host.arguments[row]]) for row in asked}
    return tuple(
        Transforms(lengths, count[lengths], ns, not padded.isdisjoint(lengths))
        for lengths, ns in total_ns.most_common()
    )


def _lengths(name: str, called: OpArguments) -> tuple[int, ...]:
    """Return the length of each transformed dimension; empty where they were not recorded."""
    try:
        shape = called.dims[0]
        along = ast.literal_eval(called.values[1])
        lengths = [shape[one] for one in along]  # type: ignore[index]
        if name == "aten::_fft_c2r":  # of half a spectrum: the last one is told
            lengths[-1] = ast.literal_eval(called.values[3])
    except (IndexError, TypeError, ValueError, SyntaxError):
        return ()
    return tuple(lengths) if all(isinstance(one, int) for one in lengths) else ()


def _padded(called: OpArguments) -> int | None:
    """Return the length that a tensor is padded to; None where it is not."""
    try:
        length, along = (ast.literal_eval(called.values[i]) for i in (1, 2))
        given = called.dims[0][along]  # type: ignore[index]
    except (IndexError, TypeError, ValueError, SyntaxError):
        return None
    return length if isinstance(length, int) and length > given else None
