"""Files without a timeline: statistics, hardware counters and memory snapshots."""

import os
from typing import Any

import msgspec

from lightning_gpuprof.analysis.memory.memory_snapshot import Site, analyze_snapshot
from lightning_gpuprof.errors import TraceError, UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import KINDS_SUFFIX, LOCAL
from lightning_gpuprof.traces import memory_snapshot
from lightning_gpuprof.traces.jax import jax_memory
from lightning_gpuprof.traces.memory_snapshot import read_snapshot
from lightning_gpuprof.traces.sniff import read_head
from lightning_gpuprof.traces.tables import Tables, open_tables
from lightning_gpuprof.views.documents.kernel_rows import kernel_rows

SNAPSHOT_VERSION = 2
"""Of what is kept beside a snapshot; raise it when something in it is added or changes meaning."""
_AS_FOUND = ("device", "reserved_bytes", "allocated_bytes", "before_bytes", "steps", "kind_bytes")
_KINDS = msgspec.json.Decoder(dict[str, list[int]])


def other_payload(path: str) -> dict[str, Any] | None:
    """Return the document of a file that holds no timeline; None where no reader knows it."""
    if (tables := open_tables(path)) is not None:
        return tables_payload(path, tables)
    head = read_head(path)
    if jax_memory.matches(head):
        return {**jax_payload(path), "source": "jax-memory", "file": path}
    if not memory_snapshot.matches(head):
        return None
    return {**snapshot_payload(path), "source": "memory-snapshot", "file": path}


def snapshot_payload(path: str) -> dict[str, Any]:
    """Return what a memory snapshot says, one entry per device, as JSON values."""
    snapshot = read_snapshot(path)
    beside = path + KINDS_SUFFIX
    try:
        kinds = decoded(_KINDS, LOCAL.read_bytes(beside)) if LOCAL.exists(beside) else {}
    except UnreadableError as error:
        raise TraceError(f"{beside} cannot be read: {error}. Delete it.") from error
    found = (analyze_snapshot(snapshot, device, kinds=kinds) for device in snapshot.devices)
    return {
        "schema_version": 1,
        "analysis_version": SNAPSHOT_VERSION,
        "file": os.path.basename(path),
        "devices": [
            {
                **{key: getattr(device, key) for key in _AS_FOUND},
                "oom_count": device.ooms,
                "peak": {
                    "allocated_bytes": device.peak_bytes,
                    "time_us": device.peak_time_us,
                    "kind_bytes": device.peak_kind_bytes,
                    "sites": [_site(site) for site in device.peak_sites],
                },
                "growing": [
                    {**_site(one), "bytes_per_step": one.bytes_per_step} for one in device.growing
                ],
            }
            for device in found
        ],
        "warnings": list(snapshot.warnings),
    }


def jax_payload(path: str) -> dict[str, Any]:
    """Return what JAX's device memory profile says, laid out as a memory snapshot."""
    warnings: list[str] = []
    devices: list[dict[str, Any]] = [
        {
            "device": name,
            "reserved_bytes": None,
            "peak": {
                "allocated_bytes": one.kind_bytes.total(),
                "kind_bytes": dict(one.kind_bytes),
                "sites": [
                    {
                        **dict(zip(("file", "line", "function"), site or (None,) * 3, strict=True)),
                        "bytes": size,
                        "count": one.site_count[site],
                    }
                    for site, size in one.site_bytes.most_common()
                ],
            },
            "growing": [],
        }
        for name, one in sorted(jax_memory.read_memory(path, warnings).items())
    ]
    return {"schema_version": 1, "devices": devices, "warnings": warnings}


def _site(site: Site) -> dict[str, Any]:
    place = {key: getattr(site.frame, key, None) for key in ("file", "line", "function")}
    return {**place, "bytes": site.num_bytes, "count": site.count}


def tables_payload(path: str, tables: Tables) -> dict[str, Any]:
    """Lay out a file that holds statistics or counters but no timeline."""
    return {
        "schema_version": 1,
        "source": tables.source,
        "file": path,
        "kind": tables.kind,
        "stats": _stats(tables),
        "kernels": kernel_rows(tables.counters),
        "counters": [vars(counter) for counter in tables.counters],
        "others": [{"kind": other.kind, "stats": _stats(other)} for other in tables.others],
        "warnings": list(tables.warnings),
    }


def _stats(tables: Tables) -> list[dict[str, Any]]:
    whole = sum(row.total_ns for row in tables.stats)
    return [
        {**vars(row), "mean_ns": row.mean_ns, "frac": row.total_ns / whole if whole else None}
        for row in tables.stats
    ]
