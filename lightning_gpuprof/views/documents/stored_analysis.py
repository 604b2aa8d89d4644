"""The analysis that is kept beside a trace: made when a reader first asks, then read."""

import json
import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records import files
from lightning_gpuprof.records.decode import check_values, decoded, typed
from lightning_gpuprof.records.files import LOCAL, FileSystem
from lightning_gpuprof.views.documents.finding_payload import ANALYSIS_VERSION, is_older
from lightning_gpuprof.views.progress import Progress

_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_Number = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
_NUMBERS = (
    "count loading_count repeated_count backward_count update_count device_count bytes num_bytes "
    "total_ns self_ns dur_ns min_ns mean_ns blocked_ns device_total_ns repeated_ns backward_ns "
    "update_self_ns peak_bytes_per_s occupancy_frac blocks_per_sm warps_per_sm"
)
_TEXTS = "name category kind cause memory operator bound"
_TABLES = {
    "operators": "name total_ns self_ns",
    "kernels": "name total_ns count",
    "idle": "cause total_ns",
    "idle_functions": "name total_ns",
    "syncs": "name blocked_ns",
    **dict.fromkeys("steps categories copies gaps modules lines roofline".split(), ""),
}
"""Tables that readers compute with, each with the columns that none of its rows lacks."""
_NUMBERED = ("thin_kernels", "occupancy")


def _row(needed: str) -> Any:
    kinds = dict.fromkeys(_NUMBERS.split(), _Number) | dict.fromkeys(_TEXTS.split(), str)
    fields = [
        (name, kind) if name in needed.split() else (name, kind | None, None)
        for name, kind in kinds.items()
    ]
    return msgspec.defstruct("Row", [*fields, ("start_ns", int | float, 0)], kw_only=True)


_FAULTS = (
    "launch_count lost_kernels orphan_kernels kernels_before_launch device_events "
    "impossible_durations impossible_starts behind_all_steps"
)
_QUALITY = msgspec.defstruct(
    "Quality",
    [
        *((name, list[str], []) for name in ("doubts", "notes")),
        *((name, _Number | None, None) for name in _FAULTS.split()),
    ],
)
_ANALYSIS = msgspec.defstruct(
    "Analysis",
    [
        *((name, list[_row(needed)], []) for name, needed in _TABLES.items()),  # type: ignore[misc]
        *((name, _Number | None, None) for name in ("sync_ns", "upload_wait_ns", "to_bytes")),
        ("warnings", list[str], []),
        ("gpu", dict[str, _Number | list[Any] | dict[str, _Number | None] | None] | None, None),
        ("quality", _QUALITY | None, None),
        *((name, dict[str, _Number] | None, None) for name in _NUMBERED),
    ],
)
"""An analysis by type; other versions may lack some of it, and what is only shown is not here."""
_unstored: dict[str, dict[str, Any]] = {}
"""Analyses made in this process that could not be written, by trace: of read-only folders."""


def read_analysis(trace: str, fs: FileSystem = LOCAL) -> dict[str, Any] | None:
    """Return the analysis kept of a trace, None where there is none.

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
        typed(document, _ANALYSIS)
    except (UnreadableError, OSError) as error:
        why = getattr(error, "strerror", None) or error
        raise TraceError(f"{name} cannot be read: {why}. It is left out.") from error
    return document


def write_analysis(trace: str, progress: Progress | None = None) -> None:
    """Analyse a trace and keep the result beside it, in this process where that cannot be written.

    Readers see the previous analysis until the new one is whole.
    """
    # Imported here: asking for a version alone must not load the engine.
    from lightning_gpuprof.traces import ReadOptions
    from lightning_gpuprof.views.documents.trace_payload import analyze_file

    document = analyze_file(trace, ReadOptions(stacks=True, progress=progress))
    try:
        check_values(document, "it")
        typed(document, _ANALYSIS)
    except UnreadableError as error:  # of values that no clock gives
        raise TraceError(f"its analysis makes no sense: {error}. Record it again.") from error
    _unstored[trace] = document
    path = trace + files.ANALYSIS_SUFFIX
    with files.written_whole(path) as part, open(part, "w", encoding="utf-8") as file:
        json.dump(document, file)
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
