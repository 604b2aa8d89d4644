"""Roofline, critical path as plain values, for JSON and the tab."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from lightning_gpuprof.views.documents.finding_payload import plain

if TYPE_CHECKING:
    # For signatures alone: whoever lays out one of these need not load the others.
    from lightning_gpuprof.analysis.critical_path.critical_path import CriticalPath
    from lightning_gpuprof.analysis.roofline.roofline import Roofline

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
