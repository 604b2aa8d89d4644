"""The `analyze --json` document: what one trace file says, as plain values."""

import dataclasses
from collections.abc import Iterable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from lightning_gpuprof.analysis.compare.trace_diff import compare_traces
from lightning_gpuprof.analysis.critical_path.critical_path import CriticalPath, critical_path
from lightning_gpuprof.analysis.trace.launches import host_ranges
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace.syncs import CHEAPER
from lightning_gpuprof.analysis.trace.time_split import TimeSplit
from lightning_gpuprof.analysis.trace.trace_window import steady_window, step_window
from lightning_gpuprof.analysis.trace_analysis import DeviceReport, TraceAnalysis, analyze_trace
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import Timeline
from lightning_gpuprof.units import duration
from lightning_gpuprof.views.documents.finding_payload import ANALYSIS_VERSION, plain

if TYPE_CHECKING:
    from lightning_gpuprof.analysis.roofline.roofline import Roofline

SCHEMA_VERSION = 1
TOP_PARTS = 50
MIN_STEPS = 2
"""One step alone may be the first, with its compilation and allocations: it is not judged."""
MIN_KERNELS = 50
"""A trace without marked steps and with fewer kernels than this is an example, not a training."""
MOST_THREADS = 1_000
"""At each step of the critical path every thread is looked at."""


def analyze_file(
    path: str,
    options: ReadOptions | None = None,
    *,
    step: int | None = None,
    steady: bool = False,
) -> dict[str, Any]:
    """Read a trace file of any known kind and return the whole document."""
    timeline = open_timeline(path, options or ReadOptions())
    window = steady_window(timeline) if steady else None
    if step is not None:
        window = step_window(timeline, step)
    trace = link(timeline)
    document = trace_payload(path, timeline, analyze_trace(trace, window))
    if len(timeline.threads) <= MOST_THREADS:
        path_found = critical_path(trace)
        if path_found is not None and window is not None:
            path_found = path_found.within(window.start_ns, window.end_ns)
        document["critical_path"] = critical_path_payload(path_found) if path_found else None
    else:
        document["warnings"].append(f"No critical path: more than {MOST_THREADS:,} threads.")
    return document


def trace_payload(path: str, timeline: Timeline, found: TraceAnalysis) -> dict[str, Any]:
    """Lay out an analysis, without paths; times are relative to the trace's first event.

    What was not measured is null or an empty list: a CPU-only trace has no `gpu`.
    """
    gpus = [_gpu(one) for one in found.devices]
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "analysis_version": ANALYSIS_VERSION,
        "source": timeline.source,
        "file": path,
        "window": asdict(found.window) if found.window else None,
        "quality": {**_values(found.quality), "doubts": list(found.quality.doubts)},
        "device": _device(timeline, len(gpus)),
        "gpu": gpus[0] if gpus else None,
        "idle": gpus[0]["idle"] if gpus else [],
        "idle_functions": _rows(found.devices[0].idle.functions) if gpus else [],
        "gaps": _rows(found.devices[0].idle.longest) if gpus else [],
        "kernels": _rows(found.kernels.kernels),
        "categories": _rows(found.kernels.categories),
        "thin_kernels": asdict(found.kernels.thin) if found.kernels.thin else None,
        "tensor_core_frac": found.kernels.tensor_core_frac,
        "occupancy": dict(found.kernels.occupancy) or None,
        "gpu_metrics": [dataclasses.asdict(one) for one in timeline.metrics],
        "operators": _rows(found.operators),
        "ranges": _rows(host_ranges(timeline, found.window)),
        "launches": to_builtins(found.launches),
        "copies": _rows(found.copies),
        "to_bytes": found.to_bytes,
        "sync_kinds": [
            {**row, "cheaper": CHEAPER.get(row["name"])} for row in _rows(found.syncs.kinds)
        ],
        "syncs": _rows(found.syncs.calls),
        "sync_count": found.syncs.count,
        "sync_ns": found.syncs.total_ns,
        "upload_wait_ns": found.syncs.upload_ns,
        "modules": _rows(found.modules),
        "lines": _rows(found.lines),
        "gemm_frac": found.kernels.gemm_frac,
        "steps": [_step(step) for step in found.steps],
        **(roofline_payload(found.roofline) if found.roofline else {"roofline": [], "roofs": None}),
        "critical_path": None,
        "findings": [],
        "warnings": [
            *found.quality.doubts,
            *timeline.warnings,
            *found.quality.notes,
            *_distorted(found),
        ],
    }
    if len(gpus) > 1:
        document["gpus"] = gpus
    steps = len({step.name for step in found.steps})
    if gpus and (steps >= MIN_STEPS if steps else found.kernels.count >= MIN_KERNELS):
        # Imported here: rules bring all that is known of runs, which takes 50 ms.
        from lightning_gpuprof.views.documents.trace_findings import trace_findings

        document["findings"] = trace_findings(document)
    return document


def _distorted(found: TraceAnalysis) -> Iterator[str]:
    apart = [step for step in found.steps if step.distorted]
    if apart:
        usual_ns = median(step.dur_ns for step in found.steps if not step.distorted)
        yield (
            f"{apart[0].name} takes {duration(apart[0].dur_ns)} where usual steps take "
            f"{duration(usual_ns)}: the profiler distorts it, or it does more than they do; the "
            "device's time is without it."
        )


def _rows(found: Iterable[Struct]) -> list[dict[str, Any]]:
    return [_values(row) for row in found]


def _values(row: Struct) -> dict[str, Any]:
    """Lay out a row; of one that may know its source line that is `where`."""
    values = asdict(row)
    values.pop("notes", None)
    if "place" in values:
        place = values.pop("place")
        values["where"] = asdict(place) if place else None
    return values


def _split(split: TimeSplit) -> dict[str, Any]:
    return {**asdict(split), "busy_frac": split.busy_frac}


def _gpu(report: DeviceReport) -> dict[str, Any]:
    return {
        "device": report.device,
        **_split(report.split),
        "steps": report.steps,
        "idle": _rows(report.idle.causes),
        "first_to_last": _split(report.first_to_last),
    }


def _step(step: Any) -> dict[str, Any]:
    return {**asdict(step), "gpu": _split(step.gpu) if step.gpu else None}


def _device(timeline: Timeline, used: int) -> dict[str, Any] | None:
    """Describe the devices that ran something; None on a CPU-only trace."""
    first = next(iter(timeline.devices), None)
    about = {key: getattr(first, key, None) for key in ("name", "vendor")}
    return {**about, "count": used} if used else None


def roofline_payload(found: "Roofline") -> dict[str, Any]:
    """Lay out operators against their roofs."""
    peaks = found.peaks
    return {
        "roofline": [plain(dataclasses.asdict(row)) for row in found.rows],
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


def critical_path_payload(path: CriticalPath, *, top: int = TOP_PARTS) -> dict[str, Any]:
    """Lay out a critical path by part, longest first; `rest_ns` is the sum of those left out."""
    parts = path.parts()
    return {
        "start_ns": path.start_ns,
        "span_ns": path.span_ns,
        "kind_ns": path.kind_ns,
        "parts": [vars(part) for part in parts[:top]],
        "rest_ns": sum(part.total_ns for part in parts[top:]),
    }


def diff_files(base: str, test: str) -> dict[str, Any]:
    """Analyse two trace files and return what changed from the first to the second."""
    # Imported here: rules bring all that is known of runs, which takes 50 ms.
    from lightning_gpuprof.findings.before_after import before_after
    from lightning_gpuprof.views.documents.trace_findings import as_run

    documents = analyze_file(base), analyze_file(test)
    old, new = map(as_run, documents)
    # A step and a whole trace cannot be compared.
    alike = len({bool(document["steps"]) for document in documents}) == 1
    return {
        "schema_version": 1,
        "base": base,
        "test": test,
        **to_builtins(compare_traces(*documents)),
        "before_after": [
            {
                **dataclasses.asdict(row),
                "label": row.label,
                "diff": row.new - row.base,
            }
            for row in before_after(old, new)
        ]
        if alike
        else [],
    }
