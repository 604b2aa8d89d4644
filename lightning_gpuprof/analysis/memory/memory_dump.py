"""Analyses memory snapshots and memory profiles; the result is stored beside the file."""

import os

import msgspec
from msgspec import Struct

from lightning_gpuprof.analysis.memory.memory_snapshot import (
    Site,
    SnapshotAnalysis,
    analyze_snapshot,
)
from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import KINDS_SUFFIX, LOCAL
from lightning_gpuprof.traces.jax import jax_memory
from lightning_gpuprof.traces.memory_snapshot import read_snapshot

SNAPSHOT_VERSION = 3
"""The version of what is stored beside a snapshot. Raise it when something in it is added or
changes meaning."""
_KINDS = msgspec.json.Decoder(dict[str, list[int]])


class MemorySite(Struct, frozen=True):
    """A line that allocated memory; None where no Python stack was recorded."""

    file: str | None
    line: int | None
    function: str | None
    bytes: int
    count: int
    bytes_per_step: int | None = None
    """Of a growing line; None where steps cannot be told apart."""


class MemoryPeak(Struct, frozen=True):
    """The highest point of the history, or the only one that was recorded."""

    allocated_bytes: int
    kind_bytes: dict[str, int]
    sites: tuple[MemorySite, ...]
    time_us: int | None = None


class DeviceDump(Struct, frozen=True, kw_only=True):
    """One device's memory. Bytes are as requested, but for `reserved_bytes`."""

    device: int | str
    peak: MemoryPeak
    reserved_bytes: int | None = None
    allocated_bytes: int | None = None
    """At the end of the history."""
    before_bytes: int | None = None
    """At its beginning."""
    steps: int | None = None
    """Training steps that began within the history; None where they cannot be told apart."""
    kind_bytes: dict[str, int] = {}
    """At the end."""
    oom_count: int = 0
    growing: tuple[MemorySite, ...] = ()
    """Lines whose allocations of every part of the history are still alive."""


class MemoryDump(Struct, frozen=True, kw_only=True):
    """The analysis of an allocator's snapshot or of a memory profile of JAX."""

    file: str
    source: str = "memory-snapshot"
    analysis_version: int = SNAPSHOT_VERSION
    devices: tuple[DeviceDump, ...] = ()
    warnings: tuple[str, ...] = ()


def analyze_snapshot_file(path: str) -> MemoryDump:
    """Read a memory snapshot and find what fills each device.

    Raises:
        TraceError: The file, or the one with the addresses beside it, cannot be read.
    """
    snapshot = read_snapshot(path)
    beside = path + KINDS_SUFFIX
    try:
        kinds = decoded(_KINDS, LOCAL.read_bytes(beside)) if LOCAL.exists(beside) else {}
    except UnreadableError as error:
        raise TraceError(f"{beside} cannot be read: {error}. Delete it.") from error
    devices = (analyze_snapshot(snapshot, device, kinds=kinds) for device in snapshot.devices)
    return MemoryDump(
        file=os.path.basename(path),
        devices=tuple(map(_device, devices)),
        warnings=tuple(snapshot.warnings),
    )


def _device(analysis: SnapshotAnalysis) -> DeviceDump:
    return DeviceDump(
        device=analysis.device,
        peak=MemoryPeak(
            allocated_bytes=analysis.peak_bytes,
            kind_bytes=analysis.peak_kind_bytes,
            sites=tuple(map(_site, analysis.peak_sites)),
            time_us=analysis.peak_time_us,
        ),
        reserved_bytes=analysis.reserved_bytes,
        allocated_bytes=analysis.allocated_bytes,
        before_bytes=analysis.before_bytes,
        steps=analysis.steps,
        kind_bytes=analysis.kind_bytes,
        oom_count=analysis.ooms,
        growing=tuple(map(_site, analysis.growing)),
    )


def _site(site: Site) -> MemorySite:
    frame = site.frame
    return MemorySite(
        file=None if frame is None else frame.file,
        line=None if frame is None else frame.line,
        function=None if frame is None else frame.function,
        bytes=site.num_bytes,
        count=site.count,
        bytes_per_step=site.bytes_per_step,
    )


def read_jax_memory(path: str) -> MemoryDump:
    """Read JAX's device memory profile."""
    warnings: list[str] = []
    memory = jax_memory.read_memory(path, warnings)
    devices = []
    for name, held in sorted(memory.items()):
        sites = []
        for place, num_bytes in held.site_bytes.most_common():
            file, line, function = place if place is not None else (None, None, None)
            sites.append(MemorySite(file, line, function, num_bytes, held.site_count[place]))
        kinds = dict(held.kind_bytes)
        peak = MemoryPeak(sum(kinds.values()), kinds, tuple(sites))
        devices.append(DeviceDump(device=name, peak=peak))
    return MemoryDump(
        file=path, source="jax-memory", devices=tuple(devices), warnings=tuple(warnings)
    )
