"""Two trace files side by side, as plain values."""

from typing import Any

from lightning_gpuprof.analysis.compare.trace_diff import TraceDiff, compare_traces
from lightning_gpuprof.views.documents.trace_payload import analyze_file

_TABLES = ("gpu", "categories", "kernels", "operators", "copies")


def diff_files(base: str, test: str) -> dict[str, Any]:
    """Analyse two trace files and return what changed from the first to the second.

    Raises:
        TraceError: One of them cannot be read.
    """
    found = compare_traces(analyze_file(base), analyze_file(test))
    return {"schema_version": 1, "base": base, "test": test, **diff_payload(found)}


def diff_payload(diff: TraceDiff) -> dict[str, Any]:
    """Lay out the difference of two traces; times and counts are per step where it says so."""
    return {
        "per_step": diff.per_step,
        "base_steps": diff.base_steps,
        "test_steps": diff.test_steps,
        "base_step_ns": diff.step_ns[0] if diff.step_ns else None,
        "test_step_ns": diff.step_ns[1] if diff.step_ns else None,
        **{
            name: [
                {**vars(row), "delta_ns": row.delta_ns, "change": row.change.value}
                for row in getattr(diff, name)
            ]
            for name in _TABLES
        },
        "notes": list(diff.notes),
    }
