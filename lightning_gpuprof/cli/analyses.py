"""Analyses a run's traces before a command reads the run."""

import os
import sys

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.views.console.progress import Progress
from lightning_gpuprof.views.documents.stored_analysis import stale_traces, write_analysis


def analyse_traces(run: str) -> None:
    """Analyse the run's traces that no reader has asked for, and those of another version.

    Where that fails an older analysis is used and a newer one left out, as the report says.

    Args:
        run: A run's log dir.
    """
    for trace in stale_traces(run, or_newer=True):
        name = os.path.basename(trace)
        try:
            write_analysis(trace, Progress(f"analysing {name}"))
        except TraceError as error:
            print(f"{name} cannot be analysed: {error}", file=sys.stderr)
        except OSError as error:
            print(f"the analysis of {name} cannot be kept: {error}", file=sys.stderr)
