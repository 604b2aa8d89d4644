"""Files without a timeline: statistics, hardware counters and memory snapshots."""

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lightning_gpuprof.analysis.memory.memory_snapshot import (
    GrowingSite,
    Site,
    SnapshotAnalysis,
    analyze_snapshot,
)
from lightning_gpuprof.records.files import KINDS_SUFFIX
from lightning_gpuprof.traces import memory_snapshot
from lightning_gpuprof.traces.memory_snapshot import read_snapshot
from lightning_gpuprof.traces.sniff import read_head
from lightning_gpuprof.traces.tables import open_tables
from lightning_gpuprof.units import duration, percent, shortened, size
from lightning_gpuprof.views.documents.work_payload import tables_payload

SNAPSHOT_VERSION = 2
"""Of what is kept beside a snapshot. Raise it whenever something in it comes, or comes to mean
something else. Documents from before have none."""
_SHOWN_SITES = 5


def snapshot_payload(path: str) -> dict[str, Any]:
    """Return what a memory snapshot says, one entry per device, as JSON values.

    Args:
        path: A pickle of `torch.cuda.memory._dump_snapshot`; `<path>.kinds.json` beside it, which
            `MemorySnapshot` writes, names what lies at which address.

    Raises:
        TraceError: It is no snapshot.
    """
    snapshot = read_snapshot(path)
    kinds = _kinds(path)
    devices = [analyze_snapshot(snapshot, device, kinds=kinds) for device in snapshot.devices]
    return {
        "schema_version": 1,
        "analysis_version": SNAPSHOT_VERSION,
        "file": os.path.basename(path),
        "devices": [device_payload(device) for device in devices],
        "warnings": list(snapshot.warnings),
    }


def device_payload(device: SnapshotAnalysis) -> dict[str, Any]:
    """Return one device's analysis as JSON values."""
    return {
        "device": device.device,
        "reserved_bytes": device.reserved_bytes,
        "allocated_bytes": device.allocated_bytes,
        "before_bytes": device.before_bytes,
        "steps": device.steps,
        "oom_count": device.ooms,
        "peak": {
            "allocated_bytes": device.peak_bytes,
            "time_us": device.peak_time_us,
            "kind_bytes": device.peak_kind_bytes,
            "sites": [_site(site) for site in device.peak_sites],
        },
        "kind_bytes": device.kind_bytes,
        "growing": [_growing(site) for site in device.growing],
    }


def snapshot_lines(payload: Mapping[str, Any]) -> list[str]:
    """Return the payload of a snapshot as lines for a terminal."""
    lines = []
    for device in payload["devices"]:
        peak = device["peak"]
        whole = peak["allocated_bytes"]
        kinds = [(kind, count) for kind, count in peak["kind_bytes"].items() if count]
        kinds.sort(key=lambda pair: -pair[1])
        lines.append(
            f"device {device['device']}: {size(whole)} in use at the peak of the history, "
            f"{size(device['reserved_bytes'])} reserved"
        )
        shares = ", ".join(
            f"{kind} {size(count)} ({percent(count / whole)})" for kind, count in kinds
        )
        lines.append(f"  by kind: {shares or 'nothing'}")
        for site in peak["sites"][:_SHOWN_SITES]:
            lines.append(f"  {size(site['bytes'])} in {site['count']} blocks: {_place(site)}")
        for site in device["growing"]:
            rate = site["bytes_per_step"]
            pace = f", {size(rate)} per step" if rate is not None else ""
            lines.append(f"  growing: {size(site['bytes'])}{pace}: {_place(site)}")
    return lines


def _kinds(path: str) -> dict[str, list[int]]:
    beside = Path(path + KINDS_SUFFIX)
    kinds: dict[str, list[int]] = json.loads(beside.read_bytes()) if beside.exists() else {}
    return kinds


def _site(site: Site) -> dict[str, Any]:
    frame = site.frame
    return {
        "file": frame.file if frame else None,
        "line": frame.line if frame else None,
        "function": frame.function if frame else None,
        "bytes": site.num_bytes,
        "count": site.count,
    }


def _growing(growing: GrowingSite) -> dict[str, Any]:
    return {**_site(growing.site), "bytes_per_step": growing.bytes_per_step}


def _place(site: Mapping[str, Any]) -> str:
    if site["file"] is None:
        return "no stack was recorded"
    return f"{site['file']}:{site['line']} in {site['function']}"


SNAPSHOT_SOURCE = "memory-snapshot"
_NAME_WIDTH = 60


def other_payload(path: str) -> dict[str, Any] | None:
    """Return the document of a file that holds no timeline; None where no reader knows it.

    Raises:
        TraceError: The file is one of these, but damaged.
    """
    tables = open_tables(path)
    if tables is not None:
        return tables_payload(path, tables)
    if not memory_snapshot.matches(read_head(path)):
        return None
    return {**snapshot_payload(path), "source": SNAPSHOT_SOURCE, "file": path}


def other_lines(document: dict[str, Any], *, top: int) -> Iterator[str]:
    """Yield the document as lines for a terminal, `top` rows per table."""
    yield f"{document['file']} ({document['source']})"
    for warning in document["warnings"]:
        yield f"! {warning}"
    if document["source"] == SNAPSHOT_SOURCE:
        yield from snapshot_lines(document)
        return
    yield from _stats_lines(document["stats"], top)
    for other in document["others"]:
        yield ""
        yield f"{other['kind']} statistics"
        yield from _stats_lines(other["stats"], top)
    counters = document["counters"]
    for row in counters[:top]:
        value = row["value"] if isinstance(row["value"], str) else f"{row['value']:,.6g}"
        yield f"  {_short(row['kernel'])}  {row['name']}: {value} {row['unit']}".rstrip()
    if len(counters) > top:
        yield f"  and {len(counters) - top:,} more values: see --json"


def _stats_lines(stats: list[dict[str, Any]], top: int) -> Iterator[str]:
    for row in sorted(stats, key=lambda row: -row["total_ns"])[:top]:
        share = percent(row["frac"]) if row["frac"] is not None else "-"
        total = duration(row["total_ns"])
        yield f"  {_short(row['name'])}  {row['count']:>8,}  {total:>10}{share:>8}"


def _short(name: str) -> str:
    return shortened(name, _NAME_WIDTH).ljust(_NAME_WIDTH)
