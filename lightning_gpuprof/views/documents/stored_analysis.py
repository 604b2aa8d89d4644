"""The analysis that is kept beside a trace: made when a reader first asks, then read."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import (
    ANALYSIS_SUFFIX,
    LOCAL,
    FileSystem,
    is_trace,
    plugin_dir,
    written_whole,
)
from lightning_gpuprof.views.documents.finding_payload import ANALYSIS_VERSION, is_older
from lightning_gpuprof.views.progress import Progress


class _Head(msgspec.Struct):
    analysis_version: int = 0


_unstored: dict[str, dict[str, Any]] = {}
"""Analyses made in this process that could not be written, by trace: of read-only folders."""


def read_analysis(trace: str, fs: FileSystem = LOCAL) -> dict[str, Any] | None:
    """Return the analysis kept of a trace, None where there is none."""
    if trace in _unstored:
        return _unstored[trace]
    path = trace + ANALYSIS_SUFFIX
    if not fs.exists(path):
        return None
    name = os.path.basename(path)
    try:
        document = msgspec.json.decode(fs.read_bytes(path), type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise TraceError(
            f"{name} is not a whole JSON document (copied in part, or its writer was killed); it "
            "is left out."
        ) from error
    if not is_older(document, ANALYSIS_VERSION + 1):
        raise TraceError(
            f"{name} is of a newer version of this package, and left out: upgrade this one. "
            "`report` analyses the trace again if it is there."
        )
    return document


def write_analysis(trace: str, progress: Progress | None = None) -> None:
    """Analyse a trace and keep the result beside it, in this process where that cannot be written.

    Readers see the previous analysis until the new one is whole.
    """
    # Imported here: asking for a version alone must not load the engine.
    from lightning_gpuprof.traces import ReadOptions
    from lightning_gpuprof.views.documents.trace_payload import analyze_file

    document = analyze_file(trace, ReadOptions(stacks=True, progress=progress))
    _unstored[trace] = document
    path = trace + ANALYSIS_SUFFIX
    with written_whole(path) as part, open(part, "w", encoding="utf-8") as file:
        json.dump(document, file)
    del _unstored[trace]


def analyse_traces(run: str, *, session: int | None = None) -> dict[str, str]:
    """Analyse a run's stale traces; return a sentence by trace file on each that failed."""
    failed = {}
    for trace in stale_traces(run, or_newer=True):
        name = os.path.basename(trace)
        if session is not None and not _is_of_session(name, session):
            continue
        try:
            write_analysis(trace, Progress(f"analysing {name} (Ctrl-C stops this)"))
        except TraceError as error:
            failed[name] = f"{name} cannot be analysed: {error}"
        except OSError as error:
            failed[name] = f"The analysis of {name} cannot be kept: {error}"
    return failed


def _is_of_session(name: str, session: int) -> bool:
    return f"-session{session}-" in name if session else "-session" not in name


def traces_of(run: str) -> list[str]:
    """Return a run's traces on this machine's disks."""
    folder = plugin_dir(run)
    return [os.path.join(folder, name) for name in LOCAL.listdir(folder) if is_trace(name)]


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
        content = Path(trace + ANALYSIS_SUFFIX).read_bytes()
        return msgspec.json.decode(content, type=_Head).analysis_version
    except (OSError, msgspec.MsgspecError):
        return 0
