"""Analyses that are stored beside traces and memory snapshots: made once, read afterwards."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lightning_gpuprof.analysis.memory.memory_dump import SNAPSHOT_VERSION, DeviceDump
from lightning_gpuprof.analysis.trace_tables import ANALYSIS_VERSION, TraceAnalysis
from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records import files
from lightning_gpuprof.records.decode import check_values, decoded, typed
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.report.progress import Progress

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_unstored: dict[str, TraceAnalysis] = {}
"""By trace, analyses of this process that could not be written, as in read-only folders."""


def is_older(document: Mapping[str, Any], than: int) -> bool:
    """Return whether a stored document has a version below `than`, or no version."""
    version = document.get("analysis_version")
    return not isinstance(version, int) or version < than


def read_analysis(trace: str, fs: FileSystem = LOCAL) -> TraceAnalysis | None:
    """Return the stored analysis of a trace; None if there is none.

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
    """Analyse a trace and store the result beside it, or in this process if it is read-only.

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
    except UnreadableError as error:  # the trace holds times that no clock gives
        raise TraceError(
            f"its analysis holds impossible values ({error}). Record the trace again."
        ) from error
    _unstored[trace] = analysis
    path = trace + files.ANALYSIS_SUFFIX
    with files.written_whole(path) as part, open(part, "wb") as file:
        file.write(msgspec.json.encode(document))
    del _unstored[trace]


class NotPreparedError(Exception):
    """A memory snapshot has no complete analysis of this version."""


class _Devices(msgspec.Struct, frozen=True):
    devices: tuple[DeviceDump, ...]


def read_snapshot(snapshot: str, fs: FileSystem = LOCAL) -> tuple[DeviceDump, ...]:
    """Return the stored analysis of a memory snapshot, by device.

    Raises:
        NotPreparedError: There is none, or it is to be made anew.
        msgspec.ValidationError: It is of another version, or damaged.
    """
    path = snapshot + files.ANALYSIS_SUFFIX
    if not fs.exists(path):
        raise NotPreparedError
    try:
        document = decoded(_DOCUMENT, fs.read_bytes(path))
    except UnreadableError:
        document = {}
    if is_older(document, SNAPSHOT_VERSION) and fs is LOCAL:  # or incomplete
        raise NotPreparedError
    return msgspec.convert(document, _Devices).devices


def analyse_traces(run: str, *, session: int | None = None) -> dict[str, str]:
    """Analyse a run's stale traces; return by trace file a sentence about every failure."""
    failed = {}
    for trace in stale_traces(run, or_newer=True):
        name = os.path.basename(trace)
        in_session = f"-session{session}-" in name if session else "-session" not in name
        if session is not None and not in_session:
            continue
        try:
            write_analysis(trace, Progress(f"analysing {name} (Ctrl-C stops this)"))
        except TraceError as error:
            failed[name] = f"{name} cannot be analysed: {error}"
        except OSError as error:
            failed[name] = f"The analysis of {name} cannot be stored: {error}"
    return failed


def traces_of(run: str) -> list[str]:
    """Return a run's traces on this machine's disks."""
    folder = files.run_folder(run)
    return [os.path.join(folder, name) for name in LOCAL.listdir(folder) if files.is_trace(name)]


def stale_traces(run: str, *, or_newer: bool = False) -> list[str]:
    """Return a run's local traces that have no complete analysis of this version."""
    # Only commands replace the analysis of a newer version. The tab asks again and again, so that
    # two versions would keep replacing each other's analyses.
    versions = {trace: _stored_version(trace) for trace in traces_of(run)}
    return [
        trace
        for trace, version in versions.items()
        if version < ANALYSIS_VERSION or (or_newer and version > ANALYSIS_VERSION)
    ]


def _stored_version(trace: str) -> int:
    try:
        content = LOCAL.read_bytes(trace + files.ANALYSIS_SUFFIX)
        version = decoded(_DOCUMENT, content).get("analysis_version")
        if version == ANALYSIS_VERSION:
            read_analysis(trace)
        return version if isinstance(version, int) else 0
    except (OSError, UnreadableError, TraceError):
        return 0
