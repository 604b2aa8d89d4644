"""Critical path, savings and trace difference as plain values, for JSON and the tab."""

from dataclasses import fields
from typing import Any

from lightning_gpuprof.analysis.critical_path import CriticalPath, critical_path
from lightning_gpuprof.analysis.launch_join import join_launches
from lightning_gpuprof.analysis.nesting import nest
from lightning_gpuprof.analysis.trace_diff import DiffRow, TraceDiff
from lightning_gpuprof.analysis.trace_window import Window, within
from lightning_gpuprof.analysis.what_if import WhatIf, what_if
from lightning_gpuprof.traces.tables import Tables
from lightning_gpuprof.traces.timeline import Timeline

TOP_PARTS = 50
"""Parts of the critical path that the document holds; the rest is summed up."""


def paths_payload(timeline: Timeline, window: Window | None = None) -> dict[str, Any]:
    """Walk the critical path and replay the trace with parts shortened.

    Returns:
        `critical_path`, `None` where nothing ran, and `what_if`, `None` without a device: there
        a replay could only say that the host's time is the host's.
    """
    nesting, launches = nest(timeline.host), join_launches(timeline)
    path = critical_path(timeline, nesting, launches)
    if path is not None and window is not None:
        path = path.within(window.start_ns, window.end_ns)
        timeline = within(timeline, launches, window)
        nesting, launches = nest(timeline.host), join_launches(timeline)
    replayed = what_if(timeline, nesting, launches) if len(timeline.device) else None
    return {
        "critical_path": critical_path_payload(path) if path else None,
        "what_if": what_if_payload(replayed) if replayed else None,
    }


def critical_path_payload(path: CriticalPath, *, top: int = TOP_PARTS) -> dict[str, Any]:
    """Lay out a critical path by part, longest first; `rest_ns` is the sum of those left out."""
    parts = path.parts()
    return {
        "start_ns": path.start_ns,
        "span_ns": path.span_ns,
        "kind_ns": {kind.value: ns for kind, ns in path.kind_ns.items()},
        "parts": [{**vars(part), "kind": part.kind.value} for part in parts[:top]],
        "rest_ns": sum(part.total_ns for part in parts[top:]),
        "notes": list(path.notes),
    }


def what_if_payload(found: WhatIf) -> dict[str, Any]:
    """Lay out what shortening each part would save."""
    return {
        "span_ns": found.span_ns,
        "share": found.share,
        "savings": [
            {
                **vars(saving),
                "saved_frac": saving.saved_ns / found.span_ns if found.span_ns else None,
            }
            for saving in found.savings
        ],
    }


def diff_payload(diff: TraceDiff) -> dict[str, Any]:
    """Lay out the difference of two traces; times and counts are per step where it says so."""
    tables = {
        field.name: [_diff_row(row) for row in getattr(diff, field.name)]
        for field in fields(diff)
        if field.name in ("gpu", "categories", "kernels", "operators", "copies")
    }
    return {
        "per_step": diff.per_step,
        "base_steps": diff.base_steps,
        "test_steps": diff.test_steps,
        "base_step_ns": diff.step_ns[0] if diff.step_ns else None,
        "test_step_ns": diff.step_ns[1] if diff.step_ns else None,
        **tables,
        "notes": list(diff.notes),
    }


def _diff_row(row: DiffRow) -> dict[str, Any]:
    return {**vars(row), "delta_ns": row.delta_ns, "change": row.change.value}


def tables_payload(path: str, tables: Tables) -> dict[str, Any]:
    """Lay out a file that holds statistics or counters but no timeline."""
    whole = sum(row.total_ns for row in tables.stats)
    return {
        "schema_version": 1,
        "source": tables.source,
        "file": path,
        "kind": tables.kind,
        "stats": [
            {
                **vars(row),
                "mean_ns": row.mean_ns,
                "frac": row.total_ns / whole if whole else None,
            }
            for row in tables.stats
        ],
        "counters": [vars(counter) for counter in tables.counters],
        "warnings": list(tables.warnings),
    }
