"""Files without a timeline: statistics, hardware counters and memory snapshots."""

from collections.abc import Iterator
from typing import Any

from lightning_gpuprof.traces import memory_snapshot
from lightning_gpuprof.traces.sniff import read_head
from lightning_gpuprof.traces.tables import open_tables
from lightning_gpuprof.units import duration, percent, shortened
from lightning_gpuprof.views.documents.memory_snapshot import snapshot_lines, snapshot_payload
from lightning_gpuprof.views.documents.work_payload import tables_payload

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
