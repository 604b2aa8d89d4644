"""The critical path of a trace and what shortening its parts would save, as plain values."""

from typing import Any

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.critical_path.trace_what_if import what_if
from lightning_gpuprof.analysis.trace.launch_join import Launches, join_launches
from lightning_gpuprof.analysis.trace.nesting import Nesting, nest
from lightning_gpuprof.analysis.trace.trace_window import Window, within
from lightning_gpuprof.traces.timeline import Timeline
from lightning_gpuprof.views.documents.work_payload import critical_path_payload, what_if_payload


def paths_payload(
    timeline: Timeline, nesting: Nesting, launches: Launches, window: Window | None = None
) -> dict[str, Any]:
    """Walk the critical path and replay the trace with parts shortened.

    Returns:
        `critical_path`, `None` where nothing ran, and `what_if`, `None` without a device: there
        a replay could only say that the host's time is the host's.
    """
    path = _path_payload(timeline, nesting, launches, window)
    if window is not None:
        timeline = within(timeline, launches, window)
        nesting, launches = nest(timeline.host), join_launches(timeline)
    replayed = what_if(timeline, nesting, launches) if len(timeline.device) else None
    return {
        "critical_path": path,
        "what_if": what_if_payload(replayed) if replayed else None,
    }


def _path_payload(
    timeline: Timeline, nesting: Nesting, launches: Launches, window: Window | None
) -> dict[str, Any] | None:
    path = critical_path(timeline, nesting, launches)
    if path is not None and window is not None:
        path = path.within(window.start_ns, window.end_ns)
    return critical_path_payload(path) if path else None
