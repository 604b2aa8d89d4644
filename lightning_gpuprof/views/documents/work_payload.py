"""Roofline, critical path, savings and trace difference as plain values, for JSON and the tab."""

from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from lightning_gpuprof.views.documents.finding_payload import plain

if TYPE_CHECKING:
    # For signatures alone: whoever lays out one of these need not load the others.
    from lightning_gpuprof.analysis.compare.trace_diff import DiffRow, TraceDiff
    from lightning_gpuprof.analysis.critical_path.critical_path import CriticalPath
    from lightning_gpuprof.analysis.critical_path.replay import WhatIf
    from lightning_gpuprof.analysis.roofline.roofline import Roofline
    from lightning_gpuprof.traces.tables import Tables

TOP_PARTS = 50
"""Parts of the critical path that the document holds; the rest is summed up."""


def roofline_payload(found: "Roofline") -> dict[str, Any]:
    """Lay out operators against their roofs.

    Returns:
        `roofline` (one entry per operator and shapes, longest first) and `roofs` (the device's
        peaks with their source, what is not known of them, and how much the rows cover).
    """
    peaks = found.peaks
    return {
        "roofline": [plain(asdict(row)) for row in found.rows],
        "roofs": {
            "device": peaks.name if peaks else None,
            "url": peaks.url if peaks else None,
            "peak_flop_per_s": dict(peaks.flop_per_s) if peaks else {},
            "peak_bytes_per_s": peaks.memory_bytes_per_s if peaks else None,
            "reason": found.reason or None,
            "total_ns": found.kernel_ns,
            "kernel_frac": found.kernel_frac,
            "flop_count": dict(found.flop_count),
            "hfu": found.hfu,
            "notes": list(found.notes),
        },
    }


def critical_path_payload(path: "CriticalPath", *, top: int = TOP_PARTS) -> dict[str, Any]:
    """Lay out a critical path by part, longest first; `rest_ns` is the sum of those left out."""
    parts = path.parts()
    return {
        "start_ns": path.start_ns,
        "span_ns": path.span_ns,
        "kind_ns": {kind.value: ns for kind, ns in path.kind_ns.items()},
        "parts": [{**vars(part), "kind": part.kind.value} for part in parts[:top]],
        "rest_ns": sum(part.total_ns for part in parts[top:]),
    }


def what_if_payload(found: "WhatIf") -> dict[str, Any]:
    """Lay out what would be saved without each part."""
    return {
        "span_ns": found.span_ns,
        "savings": [
            {
                **vars(saving),
                "saved_frac": saving.saved_ns / found.span_ns if found.span_ns else None,
            }
            for saving in found.savings
        ],
    }


def diff_payload(diff: "TraceDiff") -> dict[str, Any]:
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


def _diff_row(row: "DiffRow") -> dict[str, Any]:
    return {**vars(row), "delta_ns": row.delta_ns, "change": row.change.value}


def tables_payload(path: str, tables: "Tables") -> dict[str, Any]:
    """Lay out a file that holds statistics or counters but no timeline."""
    return {
        "schema_version": 1,
        "source": tables.source,
        "file": path,
        "kind": tables.kind,
        "stats": _stats(tables),
        "counters": [vars(counter) for counter in tables.counters],
        "others": [{"kind": other.kind, "stats": _stats(other)} for other in tables.others],
        "warnings": list(tables.warnings),
    }


def _stats(tables: "Tables") -> list[dict[str, Any]]:
    whole = sum(row.total_ns for row in tables.stats)
    return [
        {
            **vars(row),
            "mean_ns": row.mean_ns,
            "frac": row.total_ns / whole if whole else None,
        }
        for row in tables.stats
    ]
