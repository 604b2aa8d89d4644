"""What a reader should know of a run's traces: those whose analysis is not there."""

import os
import shlex
import time
from collections.abc import Iterator

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, FileSystem, plugin_dir
from lightning_gpuprof.views.documents.stored_analysis import is_older

STILL_ANALYSED = "is still being analysed"
"""In the notice on a trace whose analysis is to come, and with it another report."""
OLDER = "was analysed by an older version of this package"
_LATE_NS = 600 * 10**9
"""An analysis takes seconds, of a large trace or on a busy machine minutes: longer after the run's
end nobody is at it any more."""


def trace_notices(run: str, results: RunResults, fs: FileSystem = LOCAL) -> Iterator[str]:
    """Yield a sentence for each trace on this machine's disks that has no analysis of today."""
    if fs is not LOCAL:
        return
    for path, there in _of_older_versions(run, results):
        if there:
            yield (
                f"{os.path.basename(path)} {OLDER}: findings may be missing here. To have it done "
                f"anew: lightning-gpuprof report {shlex.quote(run)}"
            )
    ended_ns = results.start.started_unix_ns + results.wall.wall_ns
    late = time.time_ns() - ended_ns > _LATE_NS
    for plain, failure in _lacking(run, results):
        name = f"{os.path.basename(plain)}.gz"
        again = f"lightning-gpuprof finish-trace {shlex.quote(plain)}"
        if failure is not None:
            yield f"{name} could not be analysed: {failure}. To try again: {again}"
        elif late:
            yield f"{name} was never analysed. To have it done: {again}"
        else:
            yield (
                f"{name} {STILL_ANALYSED}: findings that need it are missing here. "
                f"Some seconds from now: lightning-gpuprof report {shlex.quote(run)}"
            )


def kept_analyses(run: str, results: RunResults) -> Iterator[str]:
    """Yield a sentence for each older analysis that stays, as its trace is not there."""
    for path, there in _of_older_versions(run, results):
        if not there:
            yield (
                f"{os.path.basename(path)} {OLDER}, and is gone: rules that need more of it than "
                "was written down then do without"
            )


def _of_older_versions(run: str, results: RunResults) -> Iterator[tuple[str, bool]]:
    """Yield the path of each trace with an older analysis, and whether it is there."""
    for trace in results.traces:
        if trace.analysis is not None and is_older(trace.analysis):
            path = os.path.join(plugin_dir(run), os.path.basename(trace.cycle.trace_file))
            yield path, os.path.exists(path)


def _lacking(run: str, results: RunResults) -> Iterator[tuple[str, str | None]]:
    """Yield the plain file of each trace without an analysis, and why that failed if it did."""
    for trace in results.traces:
        name = trace.cycle.trace_file
        path = os.path.join(plugin_dir(run), name)
        plain = path.removesuffix(".gz")
        if trace.analysis is not None or os.path.basename(name) != name:
            continue
        if not os.path.exists(path) and not os.path.exists(plain):
            continue  # dropped for newer ones, or deleted
        if os.path.exists(path + ANALYSIS_SUFFIX):
            continue  # it cannot be read, which is said where that is tried
        begin = f"{os.path.basename(plain)} could not be finished: "
        told = [note.message for note in results.notes if note.name == "trace-failed"]
        failures = [text.removeprefix(begin) for text in told if text and text.startswith(begin)]
        yield plain, failures[-1].rstrip(".") if failures else None
