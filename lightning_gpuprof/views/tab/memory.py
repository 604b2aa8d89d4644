"""Device memory over the run, by kind, and the batch-size advice with the line it stands on."""

from typing import Any

import msgspec

from lightning_gpuprof.analysis.memory.memory_use import phase_peaks
from lightning_gpuprof.analysis.memory.rank_advice import rank_advice
from lightning_gpuprof.analysis.run.sessions import same_session
from lightning_gpuprof.records.schema import Memory
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

MAX_POINTS = 1_000


def memory_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return memory at each window's end; where there are many, the highest of neighbours.

    Raises:
        QueryError: There is no such rank or session.
    """
    session = run.session(query)
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    advice = rank_advice(same_session(run.ranks, session.start.session))
    device = session.start.device
    return {
        "device": msgspec.to_builtins(device),
        "windows": len(records),
        "points": [_point(chunk) for chunk in _chunks(records)],
        "sizes": _sizes(records),
        "advice": msgspec.to_builtins(advice) if advice else None,
    }


def _chunks(records: list[Memory]) -> list[list[Memory]]:
    size = max(1, -(-len(records) // MAX_POINTS))
    return [records[first : first + size] for first in range(0, len(records), size)]


def _point(chunk: list[Memory]) -> dict[str, Any]:
    last = chunk[-1]
    return {
        "step": last.step,
        "allocated_bytes": last.allocated_bytes,
        "reserved_bytes": last.reserved_bytes,
        "peak_allocated_bytes": max(record.peak_allocated_bytes for record in chunk),
        "peak_reserved_bytes": max(record.peak_reserved_bytes for record in chunk),
        "total_bytes": last.total_bytes,
        "free_bytes": last.free_bytes,
        "kind_bytes": last.kind_bytes,
        "phase_peak_bytes": phase_peaks(chunk),
    }


def _sizes(records: list[Memory]) -> list[dict[str, int]]:
    """Return the highest peak of each batch size that was run."""
    peaks: dict[int, int] = {}
    for record in records:
        if record.samples:
            highest = max(record.peak_allocated_bytes, peaks.get(record.samples, 0))
            peaks[record.samples] = highest
    return [{"samples": size, "peak_allocated_bytes": peaks[size]} for size in sorted(peaks)]
