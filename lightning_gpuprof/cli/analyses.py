"""Makes a run's analyses of another version anew before a command reads them."""

import os
import sys

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.views.documents.stored_analysis import older_analyses, write_analysis


def renew(run: str) -> None:
    """Analyse the run's traces again whose kept analysis is of another version or torn.

    Where that fails an older one is used and a newer one left out, as the report says.

    Args:
        run: A run's log dir.
    """
    for trace in older_analyses(run, or_newer=True):
        name = os.path.basename(trace)
        print(
            f"analysing {name} anew: its analysis is of another version, or torn", file=sys.stderr
        )
        try:
            write_analysis(trace)
        except (TraceError, OSError) as error:
            print(f"{name} keeps the analysis that it has: {error}", file=sys.stderr)
