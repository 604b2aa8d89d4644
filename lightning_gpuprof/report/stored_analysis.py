"""The analysis that is stored beside a trace: made when somebody first asks, then read."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lightning_gpuprof.analysis.trace_tables import ANALYSIS_VERSION, TraceAnalysis
from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records import files
from lightning_gpuprof.records.decode import check_values, decoded, typed
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.report.progress import Progress

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_unstored: dict[str, TraceAnalysis] = {}
"""Analyses made in this process that could not be written, by trace: of read-only folders."""


def is_older(document: Mapping[str, Any], than: int) -> bool:
    """Return whether a stored document is of an older version than `than`, or of none."""
    version = document.get("analysis_version")
    return not isinstance(version, int) or version < than


def read_analysis(trace: str, fs: FileSystem = LOCAL) -> TraceAnalysis | None:
    """Return the stored analysis of a trace, None where there is none.

    Raises:
        TraceError: It cannot be read, or is of a newer version.
    """
    if trace in _unstored:
        return _unstored[trace]
    path = trace + files.ANALYSIS_SUFFIX
    if not fs.exists(path):
        return None
    name = os.path.basename(path)
    try:
        document = decoded(_DOCUMENT, fs.read_bytes(path))
        if not is_older(document, ANALYSIS_VERSION + 1):
            raise TraceError(
                f"{name} is of a newer version of this package, and left out: upgrade this one. "
                "`report` analyses the trace again if it is there."
            )
        return typed(document, TraceAnalysis)
    except (UnreadableError, OSError) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{name} cannot be read: {why}. It is left out.") from error


def write_analysis(trace: str, progress: Progress | None = None) -> None:
    """Analyse a trace and store the result beside it; in this process where that is not possible.

    Readers see the previous analysis until the new one is complete.
    """
    # Imported here: asking for a version alone must not load the engine.
    from lightning_gpuprof.analysis.trace_analysis import analyze_file
    from lightning_gpuprof.traces import ReadOptions

    analysis = analyze_file(trace, ReadOptions(stacks=True, progress=progress))
    document = msgspec.to_builtins(analysis)
    try:
        check_values(document, "it")
        typed(document, TraceAnalysis)
    except UnreadableError as error:  # of values that no clock gives
        raise TraceError(f"its analysis makes no sense: {error}. Record it again.") from error
    _unstored[trace] = analysis
    path = trace + files.ANALYSIS_SUFFIX
    with files.written_whole(path) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(document))
    del _unstored[trace]


def analyse_traces(run: str, *, session: int | None = None) -> dict[str, str]:
    """Analyse a run's stale traces; return a sentence by trace file on each that failed."""
    failed = {}
    for trace in stale_traces(run, or_newer=True):
        name = os.path.basename(trace)
        of_it = f"-session{session}-" in name if session else "-session" not in name
        if session is not None and not of_it:
            continue
        try:
            write_analysis(trace, Progress(f"analysing {name} (Ctrl-C stops this)"))
        except TraceError as error:
            failed[name] = f"{name} cannot be analysed: {error}"
        except OSError as error:
            failed[name] = f"The analysis of {name} cannot be kept: {error}"
    return failed


def traces_of(run: str) -> list[str]:
    """Return a run's traces on this machine's disks."""
    folder = files.run_folder(run)
    return [os.path.join(folder, name) for name in LOCAL.listdir(folder) if files.is_trace(name)]


def stale_traces(run: str, *, or_newer: bool = False) -> list[str]:
    """Return a run's traces on this machine's disks without a whole analysis of this version."""
    # An analysis of a newer version is replaced by commands alone: the tab asks again and again,
    # and two versions would go on replacing each other's.
    versions = {trace: _kept_version(trace) for trace in traces_of(run)}
    return [
        trace
        for trace, version in versions.items()
        if version < ANALYSIS_VERSION or (or_newer and version > ANALYSIS_VERSION)
    ]


def _kept_version(trace: str) -> int:
    try:
        content = LOCAL.read_bytes(trace + files.ANALYSIS_SUFFIX)
        version = decoded(_DOCUMENT, content).get("analysis_version")
        if version == ANALYSIS_VERSION:
            read_analysis(trace)
        return version if isinstance(version, int) else 0
    except (OSError, UnreadableError, TraceError):
        return 0
