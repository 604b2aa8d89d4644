"""The innermost event on a host thread over time."""

from collections.abc import Iterator

import numpy as np

from lightning_gpuprof.analysis.trace.linked_trace import Nesting
from lightning_gpuprof.arrays import Int32, Int64
from lightning_gpuprof.traces.timeline import HostEvents

_CHUNK = 1 << 14


def changes(
    host: HostEvents, nesting: Nesting, rows: Int32 | Int64
) -> Iterator[tuple[Int64, Int32]]:
    """Yield when the innermost of a thread's events changes, rising, and the one from then on.

    They come in pieces, since all changes of a trace take as much memory as its events. `rows` are
    those of one thread, in order, without events that have no duration. The parents of all of them
    are among them.
    """
    depth, end_ns = nesting.depth, nesting.end_ns
    not_ended = rows[:0]
    for low in range(0, len(rows), _CHUNK):
        begun = rows[low : low + _CHUNK]
        high = low + len(begun)
        last = high == len(rows)
        # How many changes come before one follows from the depth, since events are nested. At one
        # moment inner events end before outer ones, then others start, outer ones first.
        first = 2 * low - int(depth[begun[0]])
        stop = 2 * high - (0 if last else int(depth[rows[high]]))
        at, inner = np.empty(stop - first, dtype=np.int64), np.empty(stop - first, dtype=np.int32)
        start = host.start_ns[begun]
        place = 2 * np.arange(low, high) - depth[begun] - first
        at[place], inner[place] = start, begun
        until = np.iinfo(np.int64).max if last else int(host.start_ns[rows[high]])
        ended = np.concatenate((not_ended, begun))
        ends = end_ns[ended] <= until
        not_ended, ended = ended[~ends], ended[ends]
        place = 2 * (low + np.searchsorted(start, end_ns[ended])) - depth[ended] - 1 - first
        at[place], inner[place] = end_ns[ended], nesting.parent[ended]
        changed = np.append(at[1:], until) != at
        yield at[changed], inner[changed]
