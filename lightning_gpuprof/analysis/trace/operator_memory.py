"""What operators allocated and freed themselves, from the allocator's marks in a trace."""

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import distinct
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace_tables import OperatorMemory, TraceWindow
from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.traces.timeline import CATEGORY_ID, MISSING, select


def operator_memory(
    trace: LinkedTrace, window: TraceWindow | None = None
) -> tuple[OperatorMemory, ...]:
    """Sum up allocations and releases by the innermost operator around them, and by device."""
    marks = trace.timeline.memory
    if window is not None:
        marks = select(
            marks, (marks.start_ns >= window.start_ns) & (marks.start_ns < window.end_ns)
        )
    operator = np.full(len(marks), MISSING, dtype=np.int64)
    for thread in distinct(marks.thread).tolist():
        own = np.flatnonzero(marks.thread == thread)
        operator[own] = _operators_at(trace, thread, marks.start_ns[own])
    name = np.where(operator >= 0, np.append(trace.timeline.host.name, MISSING)[operator], MISSING)
    rows = []
    for key in sorted(set(zip(name.tolist(), marks.device.tolist(), strict=True))):
        changed = marks.changed_bytes[(name == key[0]) & (marks.device == key[1])]
        rows.append(
            OperatorMemory(
                name=None if key[0] == MISSING else trace.timeline.names[key[0]],
                device=None if key[1] == MISSING else key[1],
                count=len(changed),
                allocated_bytes=int(changed[changed > 0].sum()),
                freed_bytes=int(-changed[changed < 0].sum()),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.allocated_bytes, -row.freed_bytes)))


def _operators_at(trace: LinkedTrace, thread: int, at_ns: Int64) -> Int64:
    """Return the host row of the innermost operator of a thread at each time; -1 where none is."""
    host, nesting = trace.timeline.host, trace.nesting
    own = np.flatnonzero(host.thread == thread)
    before = np.searchsorted(host.start_ns[own], at_ns, side="right") - 1
    row = np.append(own, MISSING)[before].astype(np.int64)
    for _ in range(int(nesting.depth.max(initial=0)) + 1):
        passed = (row >= 0) & (
            (nesting.end_ns[row] < at_ns) | (host.category[row] != CATEGORY_ID["cpu_op"])
        )
        if not passed.any():
            break
        row[passed] = nesting.parent[row[passed]]
    return row
