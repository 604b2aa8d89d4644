"""The lines of code that hold device memory, from the allocator snapshots beside a run."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal

import msgspec
from msgspec import Struct

from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, SNAPSHOT_SUFFIX, written_whole
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.document import Column, Place, Section, Table
from lightning_gpuprof.units import size
from lightning_gpuprof.views.documents.finding_payload import is_older
from lightning_gpuprof.views.documents.other_files import SNAPSHOT_VERSION, snapshot_payload

MAX_SITES = 100
FIRST_SITES = 20
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])
_NAME = re.compile(r"rank(\d{1,6})(?:-session(\d{1,9}))?-step(\d{1,15})-(\w+)")


class Site(Struct, frozen=True):
    """A line of code and the memory that it holds."""

    file: str | None
    line: int | None
    function: str | None
    bytes: int
    count: int
    bytes_per_step: float | None = None


class DeviceMemory(Struct, frozen=True):
    """What a snapshot says of a device."""

    device: int | str
    peak_bytes: int
    kind_bytes: dict[str, int]
    sites: tuple[Site, ...]
    growing: tuple[Site, ...]


class Snapshot(Struct, frozen=True):
    """A memory snapshot's file, and what its name says."""

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
        devices = _devices(run, name)
    except _NotPreparedError:
        return MemorySites("not-prepared", snapshots, name)
    except msgspec.ValidationError:
        error = (
            f"{name}{ANALYSIS_SUFFIX} is of another version of this package, or damaged: upgrade "
            "and start TensorBoard again, or delete it to have it made anew."
        )
        return MemorySites("failed", snapshots, name, error=error)
    sections = [section for device in devices for section in _site_sections(device)]
    return MemorySites("prepared", snapshots, name, tuple(sections))


def _site_sections(device: DeviceMemory) -> Iterator[Section]:
    kinds = ", ".join(
        f"{kind.replace('_', ' ')} {size(held)}"
        for kind, held in device.kind_bytes.items()
        if held > 0
    )
    note = (
        "Allocations alive at the highest point of the snapshot's history: "
        f"{size(device.peak_bytes)} on device {device.device}{f' ({kinds})' if kinds else ''}."
    )
    sites = _site_table("sites", "Allocation sites", device.sites)
    yield Section("memory_sites", "Who holds the memory", "page", (sites,), note)
    if device.growing:
        growing = _site_table("growing", "Growing sites", device.growing)
        note = "Lines whose memory is not given back from step to step."
        yield Section("memory_growth", "What grows", "page", (growing,), note)


def _site_table(id: str, title: str, sites: Sequence[Site]) -> Table:
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("function", "Function", "code"),
        Column("bytes", "Memory", "bytes", bar=True),
        Column("count", "Blocks", "count"),
        Column("per_step_bytes", "Per step", "bytes"),
    )
    rows = tuple(
        {
            "place": Place(file=site.file, line=site.line)
            if site.file
            else Place(name="no stack was recorded"),
            "function": site.function,
            "bytes": site.bytes,
            "count": site.count,
            "per_step_bytes": site.bytes_per_step,
        }
        for site in sites[:MAX_SITES]
    )
    return Table(id, columns, rows, title=title, first_rows=FIRST_SITES, sort="bytes")


def write_sites(path: str) -> str:
    """Analyse a snapshot, write that beside it, and return that file's path."""
    target = path + ANALYSIS_SUFFIX
    content = msgspec.json.encode(snapshot_payload(path))
    with written_whole(target) as part, open(part, "wb") as file:
        file.write(content)
    return target


class _NotPreparedError(Exception):
    """A snapshot has no whole analysis of this version."""


def _devices(run: LoadedRun, name: str) -> list[DeviceMemory]:
    """Read a snapshot's analysis.

    Raises:
        _NotPreparedError: There is none, or it is to be made anew.
        msgspec.ValidationError: It is of another version, or damaged.
    """
    path = os.path.join(run.folder, name + ANALYSIS_SUFFIX)
    if not run.fs.exists(path):
        raise _NotPreparedError
    document = _decoded(run.fs.read_bytes(path))
    if is_older(document, SNAPSHOT_VERSION) and run.fs is LOCAL:  # or incomplete
        raise _NotPreparedError
    return [
        DeviceMemory(
            device=device.device,
            peak_bytes=device.peak.allocated_bytes,
            kind_bytes=device.peak.kind_bytes,
            sites=device.peak.sites,
            growing=device.growing,
        )
        for device in msgspec.convert(document, _Document).devices
    ]


class _Peak(Struct, frozen=True):
    allocated_bytes: int
    kind_bytes: dict[str, int]
    sites: tuple[Site, ...]


class _Device(Struct, frozen=True):
    device: int | str
    peak: _Peak
    growing: tuple[Site, ...]


class _Document(Struct, frozen=True):
    devices: tuple[_Device, ...]


def last_snapshot(run: LoadedRun) -> DeviceMemory | None:
    """Return what the last snapshot says of its first device, None where that is not known."""
    for snapshot in reversed(_snapshots(run)):
        with suppress(_NotPreparedError, msgspec.ValidationError):
            return next(iter(_devices(run, snapshot.file)), None)
        return None
    return None


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        return decoded(_DOCUMENT, text)
    except UnreadableError:
        return {}


def _snapshots(run: LoadedRun) -> tuple[Snapshot, ...]:
    """Return the snapshots by session and step, those with other names first."""
    snapshots = []
    for name in run.fs.listdir(run.folder):
        path = os.path.join(run.folder, name)
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
