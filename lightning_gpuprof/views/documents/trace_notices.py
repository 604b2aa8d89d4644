"""What a reader should know of a run's traces: those whose analysis is not there."""

import os
import shlex
import time
from collections.abc import Iterator

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.files import LOCAL, FileSystem, plugin_dir

_LATE_NS = 600 * 10**9
"""An analysis takes seconds, of a large trace or on a busy machine minutes: longer after the run's
end nobody is at it any more."""


def trace_notices(run: str, results: RunResults, fs: FileSystem = LOCAL) -> Iterator[str]:
    """Yield a sentence for each trace on this machine's disks that is not analysed."""
    if fs is not LOCAL:
        return
    ended_ns = results.start.started_unix_ns + results.wall.wall_ns
    late = time.time_ns() - ended_ns > _LATE_NS
    for trace in results.traces:
        name = trace.cycle.trace_file
        path = os.path.join(plugin_dir(run), name)
        plain = path.removesuffix(".gz")
        if trace.analysis is not None or os.path.basename(name) != name:
            continue
        if not os.path.exists(path) and not os.path.exists(plain):
            continue  # dropped for newer ones, or deleted
        yield (
            f"{name} was never analysed. To have it done: "
            f"lightning-gpuprof finish-trace {shlex.quote(plain)}"
            if late
            else f"{name} is still being analysed: findings that need it are missing here. "
            f"Some seconds from now: lightning-gpuprof report {shlex.quote(run)}"
        )
