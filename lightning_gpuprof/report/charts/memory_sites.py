"""The lines of code that hold device memory, from the allocator snapshots beside a run."""

import os
import re
from contextlib import suppress
from typing import Literal

import msgspec
from msgspec import Struct

from lightning_gpuprof.analysis.memory.memory_dump import DeviceDump, analyze_snapshot_file
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, SNAPSHOT_SUFFIX, written_whole
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.document import Section
from lightning_gpuprof.report.memory_sections import memory_sections
from lightning_gpuprof.report.stored_analysis import NotPreparedError, read_snapshot

_NAME = re.compile(r"rank(\d{1,6})(?:-session(\d{1,9}))?-step(\d{1,15})-(\w+)")


class Snapshot(Struct, frozen=True):
    """The file of a memory snapshot, with the step and reason in its name."""

    file: str
    size_bytes: int
    rank: int | None = None
    session: int | None = None
    step: int | None = None
    reason: str | None = None


SnapshotState = Literal["no-snapshot", "not-prepared", "preparing", "prepared", "failed"]


class MemorySites(Struct, frozen=True):
    """The snapshots beside a run, and the analysis of one of them."""

    state: SnapshotState
    snapshots: tuple[Snapshot, ...] = ()
    file: str | None = None
    """The snapshot that is shown."""
    sections: tuple[Section, ...] = ()
    error: str | None = None


def memory_sites_view(run: LoadedRun, query: Query) -> MemorySites:
    """Return the snapshots beside a run, and the analysis of `file`, by default the last."""
    snapshots = _snapshots(run)
    if not snapshots:
        return MemorySites("no-snapshot")
    names = [snapshot.file for snapshot in snapshots]
    name = query.text("file", names[-1])
    if name not in names:
        raise QueryError(f"{run.name} has no memory snapshot {name[:80]!r}.")
    try:
        devices = read_snapshot(_path(run, name), run.fs)
    except NotPreparedError:
        return MemorySites("not-prepared", snapshots, name)
    except msgspec.ValidationError:
        error = (
            f"{name}{ANALYSIS_SUFFIX} is of another version of this package, or damaged: upgrade "
            "and start TensorBoard again, or delete it so that it is made again."
        )
        return MemorySites("failed", snapshots, name, error=error)
    sections = [
        section
        for number, device in enumerate(devices)
        for section in memory_sections(device, number=number)
    ]
    return MemorySites("prepared", snapshots, name, tuple(sections))


def write_sites(path: str) -> str:
    """Analyse a snapshot, write the analysis beside it, and return the path of that file."""
    target = path + ANALYSIS_SUFFIX
    content = msgspec.json.encode(analyze_snapshot_file(path))
    with written_whole(target) as part, open(part, "wb") as file:
        file.write(content)
    return target


def last_snapshot(run: LoadedRun) -> DeviceDump | None:
    """Return the first device of the last snapshot; None if the snapshot was not analysed."""
    for snapshot in reversed(_snapshots(run)):
        with suppress(NotPreparedError, msgspec.ValidationError):
            return next(iter(read_snapshot(_path(run, snapshot.file), run.fs)), None)
        return None
    return None


def _path(run: LoadedRun, name: str) -> str:
    return os.path.join(run.folder, name)


def _snapshots(run: LoadedRun) -> tuple[Snapshot, ...]:
    """Return the snapshots by session and step, those with other names first."""
    snapshots = []
    for name in run.fs.listdir(run.folder):
        path = _path(run, name)
        if not name.endswith(SNAPSHOT_SUFFIX) or not run.fs.exists(path):
            continue
        num_bytes = run.fs.size(path)
        match = _NAME.fullmatch(name.removesuffix(SNAPSHOT_SUFFIX))
        if match is None:
            snapshots.append(Snapshot(name, num_bytes))
            continue
        rank, session, step, reason = match.groups()
        numbers = int(rank), int(session or 0), int(step)
        snapshots.append(Snapshot(name, num_bytes, *numbers, reason))
    return tuple(sorted(snapshots, key=lambda shot: (shot.session or 0, shot.step or 0, shot.file)))
