"""The views that the PROFILE tab and the HTML report are made of, by the name of their route.

Named by module and function, and imported when first asked for: TensorBoard imports this at its
start, where what the views compute with would cost everybody a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msgspec import Struct

    from lightning_gpuprof.report.charts.loaded_run import LoadedRun
    from lightning_gpuprof.report.charts.query import Query

    View = Callable[[LoadedRun, Query], Struct | bytes]
    """Bytes are columns for a browser's typed arrays."""

VIEWS = {
    "run": "run_views:run_view",
    "report": "run_views:report_view",
    "steps": "run_views:steps_view",
    "traces": "cycles:cycles_view",
    "operators": "traces:operators_view",
    "memory": "memory:memory_view",
    "memory_sites": "memory_sites:memory_sites_view",
    "device": "traces:device_view",
    "roofline": "roofline:roofline_view",
    "ranks": "ranks:ranks_view",
    "calls": "timeline:call_tree_view",
    "timeline": "timeline:timeline_view",
    "timeline_cut": "timeline:timeline_cut_view",
    "timeline_event": "timeline:timeline_event_view",
    "timeline_search": "timeline:timeline_search_view",
}

NEEDS_MORE = ("timeline_cut", "timeline_event", "timeline_search")
"""Views of a part of the timeline: what part is a request's to say."""

PAGES = {"overview": "report"}
"""Pages of the tab without a view of their name, and the view that most of them is drawn from."""


def find_view(name: str) -> View:
    """Return the view of a route.

    >>> find_view("steps").__name__
    'steps_view'
    """
    module, _, function = VIEWS[name].partition(":")
    view: View = getattr(import_module(f"lightning_gpuprof.report.charts.{module}"), function)
    return view
