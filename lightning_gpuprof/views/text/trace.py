"""A trace's analysis as text for a terminal: where time goes, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from typing import Any

from lightning_gpuprof.units import duration, percent, shortened, size
from lightning_gpuprof.views.text.blocks import aligned

Document = dict[str, Any]
NAME_WIDTH = 60
_PARTS = (
    ("compute", "compute_ns"),
    ("exposed communication", "exposed_comm_ns"),
    ("exposed copies", "exposed_copy_ns"),
    ("idle", "idle_ns"),
)
_HEADS = {
    "frac": "share",
    "kind": "on",
    "total_ns": "time",
    "self_ns": "own time",
    "device_total_ns": "on device",
    "memory": "host memory",
    "bytes_per_s": "speed",
    "operator": "in",
    "where": "line",
    "blocked_ns": "blocked",
}
"""Headings of columns that have another than their key."""
_TIMES = ("name", "count", "total_ns")
_TABLES = (
    ("Kernels by kind", "categories", ("category", "count", "frac", "total_ns")),
    ("Kernels", "kernels", ("name", "count", "frac", "total_ns")),
    (
        "Operators, by own host time",
        "operators",
        ("name", "count", "self_ns", "device_total_ns", "total_ns"),
    ),
    ("Device time by module", "modules", _TIMES),
    ("Device time by source line", "lines", _TIMES),
    ("Copies", "copies", ("kind", "memory", "count", "bytes", "bytes_per_s", "total_ns")),
)


def trace_lines(document: Document, *, top: int) -> Iterator[str]:
    """Yield each device's time split, the trace's faults, then all tables, `top` rows each."""
    part = f", {document['window']['name']}" if document["window"] else ""
    yield f"{document['file']} ({document['source']}{part})"
    device = document["device"]
    if device is None:
        yield "No device events: host time only."
    else:
        yield f"{device['count']} x {device['name'] or 'device, model not recorded'}"
    gpus = document.get("gpus", [document["gpu"]] if document["gpu"] else [])
    for gpu in gpus:
        yield f"\nDevice {gpu['device']}: {duration(gpu['span_ns'])} from first to last event"
        for name, key in _PARTS:
            yield _share(name, gpu[key], gpu["span_ns"])
    yield from (f"\n! {warning}" for warning in document["warnings"])
    for gpu in gpus:
        if gpu["idle"]:
            yield f"\nDevice {gpu['device']} was idle because of"
        for cause in gpu["idle"]:
            yield _share(cause["cause"], cause["total_ns"], gpu["span_ns"])
    yield from _tables(document, top)


def _share(name: str, ns: int, whole_ns: int) -> str:
    share = percent(ns / whole_ns) if whole_ns else ""
    return f"  {name:<28}{duration(ns):>12}{share:>9}"


def _tables(document: Document, top: int) -> Iterator[str]:
    for title, key, columns in _TABLES:
        yield from _table(title, document[key][:top], columns)
    if document["sync_count"]:
        blocked = duration(document["sync_ns"])
        title = f"{document['sync_count']} synchronizing calls blocked the host for {blocked}"
        columns = ("name", "operator", "where", "blocked_ns")
        yield from _table(f"{title}; the longest:", document["syncs"][:top], columns)
    if path := document["critical_path"]:
        columns = ("name", "kind", "count", "frac", "total_ns")
        yield from _table("Critical path", path["parts"][:top], columns)
    for finding in document["findings"]:
        yield f"\n[{finding['severity']}] {finding['title']}\n  {finding['advice']}"
    yield from _table("Runtime calls", document["launches"]["calls"][:top], _TIMES)
    if steps := document["steps"]:
        yield from _table(f"{len(steps)} steps:", steps[:top], ("name", "dur_ns"), heads=False)
    else:
        yield from _table("Host ranges", document["ranges"][:top], _TIMES)


def _table(
    title: str, rows: Sequence[Document], columns: Sequence[str], *, heads: bool = True
) -> Iterator[str]:
    if not rows:
        return
    yield f"\n{title}"
    cells = [[_cell(column, row.get(column)) for column in columns] for row in rows]
    if heads:
        cells.insert(0, ["", *(_HEADS.get(column, column) for column in columns[1:])])
    yield from (f"  {line}" for line in aligned(cells))


def _cell(column: str, value: Any) -> str:
    """Format by the unit at the end of the column's name.

    >>> _cell("total_ns", 1500), _cell("frac", 0.5), _cell("bytes", None)
    ('1.50 µs', '50.0%', '-')
    """
    if value is None:
        return "-"
    if column.endswith("_ns"):
        return duration(value)
    if column == "frac":
        return percent(value)
    if column in ("bytes", "bytes_per_s"):
        return size(value) + ("/s" if column.endswith("_per_s") else "")
    text = f"{value['file']}:{value['line']}" if column == "where" else str(value)
    return shortened(text, NAME_WIDTH)
