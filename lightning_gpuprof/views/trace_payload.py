"""The `analyze --json` document: what one trace file says, as plain values."""

from dataclasses import asdict
from typing import Any

from lightning_gpuprof.analysis.time_split import TimeSplit
from lightning_gpuprof.analysis.trace import DeviceReport, TraceAnalysis, analyze_timeline
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import Timeline

SCHEMA_VERSION = 1


def analyze_file(path: str, options: ReadOptions | None = None) -> dict[str, Any]:
    """Read a trace file of any known kind and return the whole document.

    Raises:
        TraceError: The file cannot be read, or is of no known kind.
    """
    timeline = open_timeline(path, options)
    return trace_payload(path, timeline, analyze_timeline(timeline))


def trace_payload(path: str, timeline: Timeline, found: TraceAnalysis) -> dict[str, Any]:
    """Lay out an analysis; times are relative to the trace's first event.

    What was not measured is null or an empty list: a CPU-only trace has no `gpu`.
    """
    gpus = [_gpu(one) for one in found.devices]
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "source": timeline.source,
        "file": path,
        "window": vars(found.window) if found.window else None,
        "quality": _values(found.quality),
        "device": _device(timeline, len(gpus)),
        "gpu": gpus[0] if gpus else None,
        "idle": [_values(cause) for cause in found.devices[0].idle.causes] if gpus else [],
        "gaps": [_placed(gap) for gap in found.devices[0].idle.longest] if gpus else [],
        "kernels": [_values(row) for row in found.kernels.kernels],
        "categories": [_values(row) for row in found.kernels.categories],
        "thin_kernels": _values(found.kernels.thin) if found.kernels.thin else None,
        "tensor_core_frac": found.kernels.tensor_core_frac,
        "operators": [_values(row) for row in found.operators],
        "launches": asdict(found.launches),
        "copies": [_values(row) for row in found.copies],
        "syncs": [_placed(call) for call in found.syncs.calls],
        "sync_count": found.syncs.count,
        "sync_ns": found.syncs.total_ns,
        "modules": [_placed(row) for row in found.modules],
        "lines": [_placed(row) for row in found.lines],
        "gemm_frac": found.kernels.gemm_frac,
        "steps": [_step(step) for step in found.steps],
        "roofline": [],
        "findings": [],
        "warnings": [*found.quality.notes, *timeline.warnings],
    }
    if len(gpus) > 1:
        document["gpus"] = gpus
    return document


def _values(row: object) -> dict[str, Any]:
    return {name: value for name, value in vars(row).items() if name != "notes"}


def _placed(row: Any) -> dict[str, Any]:
    """Lay out a row that may know its source line, as `where`."""
    values = {name: value for name, value in vars(row).items() if name not in ("row", "place")}
    return {**values, "where": vars(row.place) if row.place else None}


def _split(split: TimeSplit) -> dict[str, Any]:
    return {**vars(split), "busy_frac": split.busy_frac}


def _gpu(report: DeviceReport) -> dict[str, Any]:
    causes = [_values(cause) for cause in report.idle.causes]
    return {"device": report.device, **_split(report.split), "idle": causes}


def _step(step: Any) -> dict[str, Any]:
    return {**vars(step), "gpu": _split(step.gpu) if step.gpu else None}


def _device(timeline: Timeline, used: int) -> dict[str, Any] | None:
    """Describe the devices that ran something; None on a CPU-only trace."""
    if not used:
        return None
    first = timeline.devices[0] if timeline.devices else None
    return {
        "name": first.name if first else None,
        "vendor": first.vendor if first else None,
        "count": used,
    }
