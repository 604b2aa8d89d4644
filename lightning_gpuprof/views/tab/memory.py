"""Device memory over the run, by kind, and the batch-size advice with the line it stands on."""

from typing import Any

import msgspec

from lightning_gpuprof.analysis.memory.rank_advice import rank_advice
from lightning_gpuprof.analysis.run.sessions import same_session
from lightning_gpuprof.records.schema import Memory
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query

MAX_POINTS = 1_000
_POINT = (
    "step",
    "allocated_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "total_bytes",
    "free_bytes",
    "kind_bytes",
)


def memory_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return memory at the ends of windows, thinned out where there are many."""
    session = run.session(query)
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    advice = rank_advice(same_session(run.ranks, session.start.session))
    device = session.start.device
    # Backwards, so that the last one stays; peaks only rise, so none is lost.
    thinned = records[:: -max(1, -(-len(records) // MAX_POINTS))][::-1]
    return {
        "device": msgspec.to_builtins(device),
        "windows": len(records),
        "points": [{key: getattr(record, key) for key in _POINT} for record in thinned],
        "sizes": _sizes(records),
        "advice": msgspec.to_builtins(advice) if advice else None,
    }


def _sizes(records: list[Memory]) -> list[dict[str, int]]:
    """Return the highest peak of each batch size that raised it."""
    peaks: dict[int, int] = {}
    for record in records:
        if record.samples:
            highest = max(record.peak_allocated_bytes, peaks.get(record.samples, 0))
            peaks[record.samples] = highest
    return [{"samples": size, "peak_allocated_bytes": peaks[size]} for size in sorted(peaks)]
