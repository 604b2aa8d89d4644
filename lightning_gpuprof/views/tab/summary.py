"""What opening a large run takes, worked out once and kept beside its records.

Reading a million steps takes seconds, so the answers that the tab's first page asks for are kept
in a file. It is used only where it is about the very files that lie there, by size and time of
change, and was written by this version: anything else is as if it were not there.
"""

import os
from collections.abc import Mapping

import msgspec

import lightning_gpuprof
from lightning_gpuprof.records.files import (
    ANALYSIS_SUFFIX,
    LOCAL,
    TRACE_SUFFIX,
    FileSystem,
    plugin_dir,
    record_files,
)
from lightning_gpuprof.records.schema import ProfilerCycle

SCHEMA_VERSION = 2
SUMMARY_NAME = "run.summary.json"
LARGE_BYTES = 4_000_000
"""Records below this are read in less time than a person notices."""
_ABOUT = (".jsonl", TRACE_SUFFIX, ANALYSIS_SUFFIX)


class Summary(msgspec.Struct):
    """The content of the file.

    Args:
        schema_version: Of this layout.
        version: Of the package: its rules and texts are in the answers.
        run: The run's log dir, which the answers name.
        files: Size and time of change (ns) of each file that the answers are about.
        cycles: (rank, cycle) of every finished profiler cycle.
        answers: JSON by `answer_key`.
    """

    schema_version: int
    version: str
    run: str
    files: dict[str, tuple[int, int]]
    cycles: list[tuple[int, ProfilerCycle]]
    answers: dict[str, msgspec.Raw]


def answer_key(name: str, params: Mapping[str, str]) -> str:
    """Return what an answer is kept under.

    >>> answer_key("steps", {"run": "a", "buckets": "160", "rank": ""})
    'steps&buckets=160'
    """
    told = sorted((key, value) for key, value in params.items() if value and key != "run")
    return "&".join([name, *(f"{key}={value}" for key, value in told)])


def read_summary(run: str, fs: FileSystem = LOCAL) -> Summary | None:
    """Return a run's summary, or None where there is none that is about the run as it is now."""
    if fs is not LOCAL:
        return None  # changes could not be told
    path = os.path.join(plugin_dir(run), SUMMARY_NAME)
    try:
        found = msgspec.json.decode(fs.read_bytes(path), type=Summary)
    except (OSError, msgspec.MsgspecError):
        return None
    known = (found.schema_version, found.version, found.run)
    if known != (SCHEMA_VERSION, lightning_gpuprof.__version__, os.path.abspath(run)):
        return None
    whole = all(bytes(answer).startswith(b"{") for answer in found.answers.values())
    return found if whole and found.files == files_of(run) else None


def is_large(run: str) -> bool:
    """Tell whether a local run takes long enough to read for a summary to be worth its file."""
    return sum(os.path.getsize(path) for path in record_files(run).values()) >= LARGE_BYTES


def files_of(run: str) -> dict[str, tuple[int, int]]:
    """Return size and time of change of each file that a summary is about."""
    found = {}
    with os.scandir(plugin_dir(run)) as entries:
        for entry in entries:
            if entry.name.endswith(_ABOUT):
                stat = entry.stat()
                found[entry.name] = (stat.st_size, stat.st_mtime_ns)
    return found
