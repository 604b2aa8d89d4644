"""The views that the PROFILE tab and the HTML report are made of, by the name of their route."""

from collections.abc import Callable
from typing import Any

from lightning_gpuprof.views.device_summary import device_view
from lightning_gpuprof.views.loaded_run import LoadedRun
from lightning_gpuprof.views.memory import memory_view
from lightning_gpuprof.views.query import Query
from lightning_gpuprof.views.roofline import roofline_view
from lightning_gpuprof.views.run_header import run_view
from lightning_gpuprof.views.steps import steps_view
from lightning_gpuprof.views.timeline import (
    call_tree_view,
    timeline_cut_view,
    timeline_event_view,
    timeline_search_view,
    timeline_view,
)
from lightning_gpuprof.views.traces import operators_view, traces_view
from lightning_gpuprof.views.what_if import what_if_view

View = Callable[[LoadedRun, Query], dict[str, Any] | bytes]
"""Bytes are columns for a browser's typed arrays."""


def report_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the document that `lightning-gpuprof report --json` prints."""
    return run.report(query)


VIEWS: dict[str, View] = {
    "run": run_view,
    "report": report_view,
    "steps": steps_view,
    "traces": traces_view,
    "operators": operators_view,
    "what_if": what_if_view,
    "memory": memory_view,
    "device": device_view,
    "roofline": roofline_view,
    "calls": call_tree_view,
    "timeline": timeline_view,
    "timeline_cut": timeline_cut_view,
    "timeline_event": timeline_event_view,
    "timeline_search": timeline_search_view,
}
