"""Calls that made the host wait for the device in the marked steps, and for how long.

Without marked steps those of the whole trace count, but not the wait that closes it.
"""

from collections import Counter

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.code_places import CodePlaces
from lightning_gpuprof.analysis.trace.copies import SMALL_BYTES, copy_kind, may_wait
from lightning_gpuprof.analysis.trace.grouping import distinct, matching, sums_by_name
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind, sync_kind
from lightning_gpuprof.analysis.trace.idle import enclosing
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.step_marks import processes, step_events
from lightning_gpuprof.analysis.trace.time_split import covered_until, union
from lightning_gpuprof.analysis.trace_tables import SyncCall, SyncKind
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import MISSING, Timeline, of_category

LONGEST = 200
CHEAPER = {
    "device": "torch.cuda.current_stream().synchronize()  # not torch.cuda.synchronize()",
    "stream": "event.record(), then event.synchronize()  # waits for what was queued before it",
    "event": "event.query()  # asks, and the host goes on",
    "copy": 'x.to("cpu", non_blocking=True), then event.synchronize()  # into pinned memory',
    "other": "an event behind the work that is needed: event.synchronize()",
}
"""Code that waits for less, by the kind of a call that has to stay."""


class SyncReport(Struct, frozen=True):
    """Synchronizing calls in steps: totals, totals by kind, and the longest calls.

    `frac` is the share of the steps in which a process waits in at least one thread; None where
    steps take no time. `upload_ns` is the part of `total_ns` in asynchronous copies to the device,
    which wait because they come from pageable memory, not because a value is read.
    """

    count: int
    total_ns: int
    frac: float | None
    upload_ns: int
    kinds: tuple[SyncKind, ...]
    calls: tuple[SyncCall, ...]


def sync_calls(trace: LinkedTrace, places: CodePlaces | None = None) -> SyncReport:
    """Find synchronizing calls, longest first."""
    host = trace.timeline.host
    waited, uploads = waiting_calls(trace)
    waited, frac = _in_question(trace, waited)
    uploads &= waited
    rows = np.flatnonzero(waited)
    dur = host.dur_ns[rows]
    longest = rows[np.lexsort((host.start_ns[rows], -dur))[:LONGEST]]
    calls = tuple(_call(trace, places, row) for row in longest.tolist())
    return SyncReport(
        count=len(rows),
        total_ns=int(dur.sum()),
        frac=frac,
        upload_ns=int(host.dur_ns[uploads].sum()),
        kinds=_kinds(trace.timeline, rows, calls),
        calls=calls,
    )


def _in_question(trace: LinkedTrace, waited: Mask) -> tuple[Mask, float | None]:
    """Return the waits that begin in a step of their process, and their share of all steps.

    Without step marks all waits count, but not the one that closes the trace (`_closing`), and the
    share is of the time from a process's first event to its last.
    """
    timeline, host = trace.timeline, trace.timeline.host
    of_thread, marks = processes(timeline), step_events(timeline)
    counted = np.zeros(len(host), dtype=np.bool_)
    waits_ns = whole_ns = 0
    for process in distinct(of_thread[host.thread]).tolist():
        own = np.flatnonzero(of_thread[host.thread] == process)
        if len(marks):
            steps = of_thread[marks.thread] == process
            whole = union(marks.start_ns[steps], marks.end_ns[steps])
        else:
            own = np.setdiff1d(own, _closing(timeline, own))
            whole = union(host.start_ns[own][:1], host.end_ns[own].max(initial=0, keepdims=True))
        rows = own[waited[own]]
        start_ns = host.start_ns[rows]
        rows = rows[covered_until(whole, start_ns + 1) > covered_until(whole, start_ns)]
        counted[rows] = True
        waits = union(host.start_ns[rows], host.end_ns[rows])
        whole_ns += whole.total
        within = covered_until(waits, whole.end) - covered_until(waits, whole.start)
        waits_ns += int(within.sum())
    return counted, waits_ns / whole_ns if whole_ns else None


def _closing(timeline: Timeline, rows: Int64) -> Int64:
    """Return the wait for the whole device after which a process calls nothing.

    The profiler, or a program that measures itself, closes what it measures with such a wait.
    """
    host = timeline.host
    calls = rows[of_category(host, "cuda_runtime", "cuda_driver")[rows]]
    last = calls[np.argsort(host.start_ns[calls], kind="stable")[-1:]]
    return last[[sync_kind(timeline.names[name]) == "device" for name in host.name[last].tolist()]]


def _kinds(timeline: Timeline, rows: Int64, calls: tuple[SyncCall, ...]) -> tuple[SyncKind, ...]:
    """Sum up calls by kind, each with the line of its longest call that has one."""
    at = {call.kind: call.where for call in reversed(calls) if call.where}
    count, took = Counter[str](), Counter[str]()
    host = timeline.host
    for sums in sums_by_name(timeline.names, host.name[rows], host.dur_ns[rows]):
        count[sync_kind(sums.name)] += sums.count
        took[sync_kind(sums.name)] += sums.total_ns
    return tuple(
        SyncKind(kind, at.get(kind), count[kind], ns, CHEAPER.get(kind))
        for kind, ns in took.most_common()
    )


def waiting_calls(trace: LinkedTrace) -> tuple[Mask, Mask]:
    """Return for each host row whether it is a call that waited for the device.

    A copy counts if its call always blocks, or if the call is asynchronous but waited, as copies
    from or to pageable memory do. The second mask is of asynchronous uploads.
    """
    timeline, host = trace.timeline, trace.timeline.host
    rows = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    waited, uploads = np.zeros((2, len(host)), dtype=np.bool_)
    waited[rows] = matching(
        timeline, host.name[rows], lambda name: call_kind(name) == "sync" or blocks_as_copy(name)
    )
    copies = _waited_copies(trace)
    calls = trace.launches.call[copies]
    uploads[calls[_of_kind(timeline, copies, ("HtoD",))]] = True
    uploads &= ~waited  # a call that always waits is the program's own
    waited[calls] = True
    return waited, uploads


def _waited_copies(trace: LinkedTrace) -> Int64:
    """Return the device rows of copies that had almost ended when their call returned.

    A copy from pageable memory is sent in pieces during the call, which returns while the last
    piece is still being sent; up to 64 KiB are buffered at once, without a wait.
    """
    timeline, device, host = trace.timeline, trace.timeline.device, trace.timeline.host
    call = trace.launches.call
    copies = np.flatnonzero(may_wait(timeline) & (call >= 0))
    dur, num_bytes = device.dur_ns[copies], device.num_bytes[copies]
    passed = host.end_ns[call[copies]] - device.start_ns[copies]
    small = (num_bytes != MISSING) & (num_bytes <= SMALL_BYTES)
    handed_over = ~small & (2 * passed >= dur)
    uploads = _of_kind(timeline, copies, ("HtoD", "pageable"))
    rows: Int64 = copies[np.where(uploads, handed_over, passed >= dur)]
    return rows


def _of_kind(timeline: Timeline, copies: Int64, kind: tuple[str, ...]) -> Mask:
    """Return a mask of the copies of a direction and, if given, of a kind of host memory."""
    names = timeline.device.name[copies]
    return matching(timeline, names, lambda name: copy_kind(name)[: len(kind)] == kind)


def _call(trace: LinkedTrace, places: CodePlaces | None, row: int) -> SyncCall:
    timeline, nesting, host = trace.timeline, trace.nesting, trace.timeline.host
    name = timeline.names[host.name[row]]
    return SyncCall(
        name=name,
        kind=sync_kind(name),
        start_ns=int(host.start_ns[row]),
        blocked_ns=int(host.dur_ns[row]),
        operator=enclosing(timeline, nesting, row, "cpu_op"),
        region=enclosing(timeline, nesting, row, "user_annotation"),
        where=places.at(timeline, row) if places else None,
    )
