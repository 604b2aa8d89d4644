"""Copies and fills by direction: count, bytes, bandwidth, pageable or pinned, small ones."""

import re

import numpy as np

from lightning_gpuprof.analysis.trace.grouping import matching, used
from lightning_gpuprof.analysis.trace_tables import CopyRow
from lightning_gpuprof.arrays import Mask
from lightning_gpuprof.traces.timeline import MISSING, Timeline, of_category

SMALL_BYTES = 64 << 10
"""Copies from pageable memory up to this size are buffered at once: the host does not wait."""
_DIRECTION = re.compile(r"(HtoD|DtoH|DtoD|PtoP|HtoH|HtoA|AtoH|DtoA|AtoD|AtoA)")


def copy_table(timeline: Timeline) -> tuple[CopyRow, ...]:
    """Sum up copies by direction and kind of host memory, longest first."""
    device = timeline.device
    copies = of_category(device, "gpu_memcpy", "gpu_memset")
    groups: dict[tuple[str, str | None], list[int]] = {}
    for name in used(device.name[copies]):
        groups.setdefault(copy_kind(timeline.names[name]), []).append(name)
    rows = []
    for (kind, memory), names in groups.items():
        mask = copies & np.isin(device.name, names)
        dur, size = device.dur_ns[mask], device.num_bytes[mask]
        known = size != MISSING
        timed = known & (dur > 0)
        seconds = int(dur[timed].sum()) / 1e9
        row = CopyRow(
            kind=kind,
            memory=memory,
            count=len(dur),
            total_ns=int(dur.sum()),
            bytes=int(size[known].sum()) if known.any() else None,
            bytes_per_s=int(size[timed].sum()) / seconds if seconds else None,
        )
        rows.append(row)
    return tuple(sorted(rows, key=lambda row: (-row.total_ns, row.kind, row.memory or "")))


def copy_kind(name: str) -> tuple[str, str | None]:
    """Return direction and kind of host memory.

    >>> copy_kind("Memcpy HtoD (Pageable -> Device)"), copy_kind("Memset (Device)")
    (('HtoD', 'pageable'), ('Memset', None))
    """
    low = name.lower()
    memory = "pageable" if "pageable" in low else "pinned" if "pinned" in low else None
    if match := _DIRECTION.search(name):
        return match[1], memory
    return ("Memset", None) if "memset" in low else (name, memory)


def may_wait(timeline: Timeline) -> Mask:
    """Return a mask of the copies for which the host may have waited, not only queued them."""
    device = timeline.device
    return of_category(device, "gpu_memcpy") & ~matching(timeline, device.name, queued_only)


def queued_only(name: str) -> bool:
    """Return whether the host only queues such a copy, and does not wait; False if not known.

    >>> [queued_only(f"Memcpy {kind}") for kind in ("DtoD (Device -> Device)",
    ...  "HtoD (Pinned -> Device)", "DtoH (Device -> Pageable)", "HtoD")]
    [True, True, False, False]
    """
    kind, memory = copy_kind(name)
    return kind in ("DtoD", "PtoP") or memory == "pinned"
