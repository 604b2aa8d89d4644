"""Calls that made the host wait for the device, and for how long."""

import numpy as np
from msgspec import Struct

from lightning_gpuprof.analysis.trace.code_places import CodePlaces, Place
from lightning_gpuprof.analysis.trace.copies import copy_kind, may_wait
from lightning_gpuprof.analysis.trace.grouping import used
from lightning_gpuprof.analysis.trace.host_calls import blocks_as_copy, call_kind
from lightning_gpuprof.analysis.trace.idle import enclosing
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.arrays import Int64, Mask
from lightning_gpuprof.traces.timeline import Timeline, of_category

LONGEST = 200


class SyncCall(Struct, frozen=True):
    """One synchronizing call.

    Args:
        name: The runtime or driver call.
        kind: `sync` for a synchronize call, `copy` for a copy that the host waited for.
        start_ns: When the host began to wait.
        blocked_ns: How long the call took.
        operator: Innermost operator around it, such as `aten::_local_scalar_dense`.
        region: Innermost annotation around it.
        place: The user's own function that it was called from, where stacks were read.
    """

    name: str
    kind: str
    start_ns: int
    blocked_ns: int
    operator: str | None
    region: str | None
    place: Place | None


class SyncReport(Struct, frozen=True):
    """Synchronizing calls: all of them summed up, and the longest ones one by one.

    `upload_ns` is the part of `total_ns` in asynchronous copies to the device, which wait because
    they come from pageable memory: nobody reads a value there.
    """

    count: int
    total_ns: int
    upload_ns: int
    calls: tuple[SyncCall, ...]


def sync_calls(trace: LinkedTrace, places: CodePlaces | None = None) -> SyncReport:
    """Find synchronizing calls, longest first.

    A copy counts where its call is of the blocking kind, or returned only after the copy had
    ended on the device, as asynchronous copies from or to pageable memory do.
    """
    timeline, host = trace.timeline, trace.timeline.host
    rows = np.flatnonzero(of_category(host, "cuda_runtime", "cuda_driver"))
    kinds = np.zeros(len(timeline.names), dtype=np.int8)
    for name in used(host.name[rows]):
        text = timeline.names[name]
        kinds[name] = 1 if call_kind(text) == "sync" else 2 if blocks_as_copy(text) else 0
    kind = kinds[host.name[rows]]
    waited, uploads = np.zeros((2, len(host)), dtype=np.bool_)
    copies = _waited_copies(trace)
    calls = trace.launches.call[copies]
    waited[calls] = True
    uploads[calls[_to_device(timeline, copies)]] = True
    uploads[rows[kind > 0]] = False  # a call that always waits is the program's own
    kind[waited[rows]] = 2
    rows, kind = rows[kind > 0], kind[kind > 0]
    dur = host.dur_ns[rows]
    longest = np.lexsort((host.start_ns[rows], -dur))[:LONGEST]
    return SyncReport(
        count=len(rows),
        total_ns=int(dur.sum()),
        upload_ns=int(host.dur_ns[uploads].sum()),
        calls=tuple(
            _call(trace, places, int(rows[i]), "sync" if kind[i] == 1 else "copy")
            for i in longest.tolist()
        ),
    )


def _waited_copies(trace: LinkedTrace) -> Int64:
    """Return the device rows of copies that had ended when their call returned."""
    timeline, call = trace.timeline, trace.launches.call
    device, host = timeline.device, timeline.host
    copies = np.flatnonzero(may_wait(timeline) & (call >= 0))
    rows: Int64 = copies[host.end_ns[call[copies]] >= device.end_ns[copies]]
    return rows


def _to_device(timeline: Timeline, copies: Int64) -> Mask:
    names = timeline.device.name[copies]
    up = np.zeros(len(timeline.names), dtype=np.bool_)
    for name in used(names):
        up[name] = copy_kind(timeline.names[name])[0] == "HtoD"
    found: Mask = up[names]
    return found


def _call(trace: LinkedTrace, places: CodePlaces | None, row: int, kind: str) -> SyncCall:
    timeline, nesting, host = trace.timeline, trace.nesting, trace.timeline.host
    return SyncCall(
        name=timeline.names[host.name[row]],
        kind=kind,
        start_ns=int(host.start_ns[row]),
        blocked_ns=int(host.dur_ns[row]),
        operator=enclosing(timeline, nesting, row, "cpu_op"),
        region=enclosing(timeline, nesting, row, "user_annotation"),
        place=places.at(timeline, row) if places else None,
    )
