"""The critical path of a trace and what shortening its parts would save, as plain values."""

from typing import Any

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.critical_path.trace_what_if import what_if
from lightning_gpuprof.analysis.trace.linked_trace import LinkedTrace
from lightning_gpuprof.analysis.trace.trace_window import Window, within
from lightning_gpuprof.views.documents.work_payload import critical_path_payload, what_if_payload


def paths_payload(trace: LinkedTrace, window: Window | None = None) -> dict[str, Any]:
    """Walk the critical path and replay the trace with parts shortened.

    Returns:
        `critical_path`, `None` where nothing ran, and `what_if`, `None` without a device: there
        a replay could only say that the host's time is the host's.
    """
    path = _path_payload(trace, window)
    if window is not None:
        trace = within(trace, window)
    replayed = what_if(trace) if len(trace.timeline.device) else None
    return {
        "critical_path": path,
        "what_if": what_if_payload(replayed) if replayed else None,
    }


def _path_payload(trace: LinkedTrace, window: Window | None) -> dict[str, Any] | None:
    path = critical_path(trace)
    if path is not None and window is not None:
        path = path.within(window.start_ns, window.end_ns)
    return critical_path_payload(path) if path else None
