"""Notices on a run's traces that are not analysed, or were by an older version."""

import os
import shlex
from collections.abc import Iterator, Mapping

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, FileSystem, plugin_dir
from lightning_gpuprof.views.documents.analysis_version import is_older


def trace_notices(
    run: str, results: RunResults, failed: Mapping[str, str], fs: FileSystem
) -> Iterator[str]:
    """Yield a sentence for each trace on this machine's disks without an analysis of today.

    Args:
        run: The run's log dir.
        results: Knows its traces.
        failed: By trace file, why it could not be analysed just now.
        fs: Where the run lies.
    """
    for trace in results.traces if fs is LOCAL else ():
        name = trace.cycle.trace_file
        path = os.path.join(plugin_dir(run), name)
        if os.path.basename(name) != name or not os.path.exists(path):
            continue
        if name in failed:
            yield failed[name]
            continue
        if trace.analysis is None:
            if os.path.exists(path + ANALYSIS_SUFFIX):
                continue  # it cannot be read, which is said where that is tried
            state = "is not analysed yet"
        elif is_older(trace.analysis):
            state = "was analysed by an older version of this package"
        else:
            continue
        yield (
            f"{name} {state}, so findings may be missing here. The PROFILE tab analyses it when "
            "the run is opened, and then fills in. By hand: "
            f"lightning-gpuprof report {shlex.quote(run)}"
        )
