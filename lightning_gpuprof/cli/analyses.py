"""Analyses a run's traces before a command reads the run."""

import os
import sys
from importlib import import_module

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import LAYOUT_SUFFIX
from lightning_gpuprof.views.console.progress import Progress
from lightning_gpuprof.views.documents.stored_analysis import (
    stale_traces,
    traces_of,
    write_analysis,
)

_TIMELINES = 4
"""The last so many traces that the HTML report shows."""


def analyse_traces(run: str, *, timelines: bool = False) -> None:
    """Analyse the run's traces that have no analysis, or an analysis of another version.

    Where that fails an older analysis is used and a newer left out, as the report says.

    Args:
        run: A run's log dir.
        timelines: Also lay its last traces out for the timeline and the call tree.
    """
    for trace in stale_traces(run, or_newer=True):
        name = os.path.basename(trace)
        try:
            write_analysis(trace, Progress(f"analysing {name}"))
        except TraceError as error:
            print(f"{name} cannot be analysed: {error}", file=sys.stderr)
        except OSError as error:
            print(f"the analysis of {name} cannot be kept: {error}", file=sys.stderr)
    for trace in traces_of(run)[-_TIMELINES:] if timelines else ():
        if not os.path.exists(trace + LAYOUT_SUFFIX):
            try:
                import_module("lightning_gpuprof.views.tab.layout_file").write_layout(trace)
            except (TraceError, OSError) as error:
                print(f"{os.path.basename(trace)} has no timeline: {error}", file=sys.stderr)
