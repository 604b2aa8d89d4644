"""Makes a run's analyses of an older version anew before a command reads them."""

import os
import sys

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.views.documents.stored_analysis import older_analyses, write_analysis


def renew(run: str) -> None:
    """Analyse the run's traces again whose kept analysis is of an older version or torn.

    Where that fails the older one is used, as the report says.

    Args:
        run: A run's log dir.
    """
    for trace in older_analyses(run):
        name = os.path.basename(trace)
        print(
            f"analysing {name} anew: its analysis is of an older version, or torn", file=sys.stderr
        )
        try:
            write_analysis(trace)
        except (TraceError, OSError) as error:
            print(f"{name} keeps its older analysis: {error}", file=sys.stderr)
