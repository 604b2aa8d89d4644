"""Device memory over the run, and the lines that hold it, from the run's snapshots."""

import os
import re
from typing import Any

import msgspec

from lightning_gpuprof.analysis.memory.memory_use import rank_advice
from lightning_gpuprof.analysis.run.sessions import same_session
from lightning_gpuprof.errors import UnreadableError
from lightning_gpuprof.records.decode import decoded
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, SNAPSHOT_SUFFIX, written_whole
from lightning_gpuprof.records.schema import Memory
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.views.documents.finding_payload import is_older
from lightning_gpuprof.views.documents.other_files import SNAPSHOT_VERSION, snapshot_payload

MAX_POINTS = 1_000
_DOCUMENT = msgspec.json.Decoder(dict[str, Any])


def memory_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return memory at the ends of windows, thinned out where there are many."""
    session = run.session(query)
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    advice = rank_advice(same_session(run.ranks, session.start.session))
    device = session.start.device
    # Backwards, so that the last one stays; peaks only rise, so none is lost.
    thinned = records[:: -max(1, -(-len(records) // MAX_POINTS))][::-1]
    return {
        "device": msgspec.to_builtins(device),
        "windows": len(records),
        "points": [msgspec.to_builtins(record) for record in thinned],
        "sizes": _sizes(records),
        "advice": msgspec.to_builtins(advice) if advice else None,
    }


def _sizes(records: list[Memory]) -> list[dict[str, int]]:
    """Return the highest peak of each batch size that raised it."""
    peaks: dict[int, int] = {}
    for record in records:
        if record.samples:
            highest = max(record.peak_allocated_bytes, peaks.get(record.samples, 0))
            peaks[record.samples] = highest
    return [{"samples": size, "peak_allocated_bytes": peaks[size]} for size in sorted(peaks)]


MAX_SITES = 100
_NAME = re.compile(r"rank(\d{1,6})(?:-session(\d{1,9}))?-step(\d{1,15})-(\w+)")


def memory_sites_view(run: LoadedRun, query: Query) -> dict[str, Any]:
    """Return the snapshots beside a run, and the analysis of `file`, by default the last."""
    snapshots = _snapshots(run)
    if not snapshots:
        return {"state": "no-snapshot", "snapshots": []}
    names = [one["file"] for one in snapshots]
    name = query.text("file", names[-1])
    if name not in names:
        raise QueryError(f"{run.name} has no memory snapshot {name[:80]!r}.")
    found: dict[str, Any] = {"snapshots": snapshots, "file": name, "devices": []}
    path = os.path.join(run.folder, name + ANALYSIS_SUFFIX)
    if not run.fs.exists(path):
        return {**found, "state": "not-prepared"}
    document = _decoded(run.fs.read_bytes(path))
    if is_older(document, SNAPSHOT_VERSION) and run.fs is LOCAL:  # or torn
        return {**found, "state": "not-prepared"}
    try:
        devices = [_device(device) for device in document["devices"]]
    except (KeyError, TypeError):
        said = f"{name}{ANALYSIS_SUFFIX} is of another version of this package, or damaged"
        fix = "upgrade and start TensorBoard again, or delete it to have it made anew"
        return {**found, "state": "failed", "error": f"{said}: {fix}."}
    return {
        **found,
        "state": "prepared",
        "devices": devices,
        "warnings": document.get("warnings", []),
    }


def write_sites(path: str) -> str:
    """Analyse a snapshot, write that beside it, and return that file's path."""
    target = path + ANALYSIS_SUFFIX
    content = msgspec.json.encode(snapshot_payload(path))
    with written_whole(target) as part, open(part, "wb") as file:
        file.write(content)
    return target


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        return decoded(_DOCUMENT, text)
    except UnreadableError:
        return {}


def _snapshots(run: LoadedRun) -> list[dict[str, Any]]:
    """Return the snapshots by session and step, those with other names first."""
    found = []
    for name in run.fs.listdir(run.folder):
        if not name.endswith(SNAPSHOT_SUFFIX) or not run.fs.exists(os.path.join(run.folder, name)):
            continue
        match = _NAME.fullmatch(name.removesuffix(SNAPSHOT_SUFFIX))
        rank, session, step, reason = match.groups() if match else (None, None, None, None)
        found.append(
            {
                "file": name,
                "rank": None if rank is None else int(rank),
                "session": None if rank is None else int(session or 0),
                "step": None if step is None else int(step),
                "reason": reason,
                "size_bytes": run.fs.size(os.path.join(run.folder, name)),
            }
        )
    return sorted(found, key=lambda one: (one["session"] or 0, one["step"] or 0, one["file"]))


def _device(device: dict[str, Any]) -> dict[str, Any]:
    peak = device["peak"]
    return {
        "device": device["device"],
        "reserved_bytes": device["reserved_bytes"],
        "peak_bytes": peak["allocated_bytes"],
        "kind_bytes": peak["kind_bytes"],
        "sites": peak["sites"][:MAX_SITES],
        "site_count": len(peak["sites"]),
        "growing": device["growing"][:MAX_SITES],
    }
