"""The views that the PROFILE tab and the HTML report are made of, by the name of their route.

Views are named by module and function, and imported at the first request. TensorBoard imports this
module as it starts, and importing what the views need would delay that by a tenth of a second.
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
    """Returns a view's payload, or bytes with columns for a browser's typed arrays."""

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
"""Views of a part of the timeline, which a request must name."""

PAGES = {"overview": "report"}
"""Pages of the tab that have no view of their name, with the view that holds most of their data."""


def find_view(name: str) -> View:
    """Return the view of a route.

    >>> find_view("steps").__name__
    'steps_view'
    """
    module, _, function = VIEWS[name].partition(":")
    view: View = getattr(import_module(f"lightning_gpuprof.report.charts.{module}"), function)
    return view
