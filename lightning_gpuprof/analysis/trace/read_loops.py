"""Loops that read value after value off the device: what one turn takes of the host, in all."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace, rows_by_thread
from lightning_gpuprof.analysis.trace.operators import Regions
from lightning_gpuprof.analysis.trace.trace_window import step_events
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import of_category

READ = "aten::_local_scalar_dense"
MIN_TURNS = 10
"""So many turns one after the other are a loop."""
ALIKE = 2
"""A turn has at most so many times as many events as the one before it: a loop's body is the same
each time, and what lies between two loops, or two steps, is not."""
SHORT_NS = 10_000
"""Per event of a turn: one that takes longer works, or waits for work that is no part of it."""


class ReadLoops(Struct, frozen=True):
    """The turns of such loops, each from the end of one read to the end of the step's next."""

    read_count: int
    total_ns: int
    event_count: int
    waited_ns: int


def read_loops(trace: LinkedTrace, regions: Regions) -> ReadLoops | None:
    """Find them in a trace with a device; None where there is none: on a CPU no read waits."""
    timeline, host = trace.timeline, trace.timeline.host
    if not len(timeline.device):
        return None
    apart = regions.in_batch | regions.in_update
    is_read = named(timeline, lambda name: name == READ) & ~apart
    if not is_read.any():
        return ReadLoops(0, 0, 0, 0)
    is_event = of_category(host, "cpu_op", "cuda_runtime", "cuda_driver")
    waits = named(timeline, lambda name: call_kind(name) == "sync" or blocks_as_copy(name))
    waited_ns = np.where(waits & is_event, host.dur_ns, 0)
    begins = step_events(timeline).start_ns
    found = np.zeros(4, dtype=np.int64)
    for part in rows_by_thread(host):
        rows = part[is_event[part]]
        if is_read[rows].any():
            found += _of_thread(trace, rows, is_read, waited_ns, begins)
    return ReadLoops(*found.tolist())


def _of_thread(
    trace: LinkedTrace, rows: Int64, is_read: Mask, waited_ns: Int64, begins: Int64
) -> Int64:
    """Return the figures of `ReadLoops` for one thread, where steps begin at `begins`."""
    at, starts = np.flatnonzero(is_read[rows]), trace.timeline.host.start_ns[rows]
    ends = trace.nesting.end_ns[rows[at]]
    last = np.maximum(0, np.cumsum(is_read[rows]) - 1)
    waited = np.add.reduceat(np.where(starts < ends[last], waited_ns[rows], 0), at)
    # The events inside a read come after it in the table, so a turn keeps its number of events.
    turn_ns, events = np.diff(ends), np.diff(at)
    same_step = np.diff(np.searchsorted(begins, starts[at], side="right")) == 0
    short = same_step & (turn_ns < SHORT_NS * events)
    alike = (events[1:] <= ALIKE * events[:-1]) & (events[:-1] <= ALIKE * events[1:])
    goes_on = np.append(False, short[1:] & short[:-1] & alike) if len(events) else short
    loop = np.cumsum(~goes_on) - 1 if len(events) else np.zeros(0, dtype=np.int64)
    kept = short & (np.bincount(loop)[loop] >= MIN_TURNS) if len(events) else short
    reads = kept.sum() + len(np.unique(loop[kept]))
    waited = np.minimum(waited[1:], turn_ns)  # of a wait inside a wait both are in the sum
    figures = (reads, turn_ns[kept].sum(), events[kept].sum(), waited[kept].sum())
    return np.array(figures, dtype=np.int64)
