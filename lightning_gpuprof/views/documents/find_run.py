"""Finds the run that a user's path means."""

import os
from dataclasses import dataclass

from lightning_gpuprof.records.files import LOCAL, FileSystem, find_runs, record_files
from lightning_gpuprof.records.glance import glance


@dataclass(frozen=True)
class FoundRun:
    """A run's log dir, and what the user should know of how it was chosen."""

    run: str
    notices: tuple[str, ...] = ()


def resolve_run(path: str, fs: FileSystem = LOCAL) -> FoundRun:
    """Return the run at a path, or on local disks the newest one under it.

    A record file stands for its own run. A path without any run comes back as it is: reading it
    says what is wrong.
    """
    path = os.fspath(path)
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.abspath(path) in record_files(folder).values():
        return FoundRun(folder)
    if fs is not LOCAL or not os.path.isdir(path) or record_files(path):
        return FoundRun(path)
    runs = list(find_runs(path))
    if not runs:
        return FoundRun(path)
    newest = max(runs, key=_written_ns)
    others = len(runs) - 1
    notice = f"{path} holds {others + 1} runs; this is the newest, {newest}."
    return FoundRun(newest, (notice,) if others else ())


def runs_in(folder: str) -> list[str]:
    """Return the runs at or under a folder on local disks, the one that was begun first first."""
    return sorted(find_runs(folder), key=lambda run: (_begun_unix_ns(run), run))


def _begun_unix_ns(run: str) -> int:
    files = record_files(run)
    start = glance(files[min(files)]).start
    return start.started_unix_ns if start is not None else 0


def _written_ns(run: str) -> int:
    return max(os.stat(file).st_mtime_ns for file in record_files(run).values())
