"""A trace's analysis as text for a terminal: where time goes, and what is wrong with it."""

from collections.abc import Iterator, Sequence
from typing import Any

from lightning_gpuprof.units import duration, percent, shortened, size

Document = dict[str, Any]
NAME_WIDTH = 60
_PARTS = (
    ("compute", "compute_ns"),
    ("exposed communication", "exposed_comm_ns"),
    ("exposed copies", "exposed_copy_ns"),
    ("idle", "idle_ns"),
)


_HEADS = {
    "count": "count",
    "frac": "share",
    "kind": "on",
    "total_ns": "time",
    "self_ns": "own time",
    "device_total_ns": "on device",
    "memory": "host memory",
    "bytes": "bytes",
    "bytes_per_s": "speed",
    "operator": "in",
    "where": "line",
    "blocked_ns": "blocked",
    "part_ns": "takes",
    "saved_ns": "saved",
}
"""Headings of columns; that of the first is the table's title."""


def render_split(document: Document) -> str:
    """Return each device's time split: cheap to have, so printed first."""
    return "\n".join(_split_lines(document)) + "\n"


def render_rest(document: Document, *, top: int) -> str:
    """Return the trace's faults, then all tables after the time split, `top` rows each."""
    return "\n".join(_rest_lines(document, top)) + "\n"


def _split_lines(document: Document) -> Iterator[str]:
    part = f", {document['window']['name']}" if document["window"] else ""
    yield f"{document['file']} ({document['source']}{part})"
    device = document["device"]
    if device is None:
        yield "No device events: host time only."
        return
    yield f"{device['count']} x {device['name'] or 'device, model not recorded'}"
    for gpu in document["gpus"]:
        yield ""
        yield f"Device {gpu['device']}: {duration(gpu['span_ns'])} from first to last event"
        for name, key in _PARTS:
            yield _share(name, gpu[key], gpu["span_ns"])


def _share(name: str, ns: int, whole_ns: int) -> str:
    share = percent(ns / whole_ns) if whole_ns else ""
    return f"  {name:<28}{duration(ns):>12}{share:>9}"


def _rest_lines(document: Document, top: int) -> Iterator[str]:
    for warning in document["warnings"]:
        yield ""
        yield f"! {warning}"
    for gpu in document.get("gpus", [document["gpu"]] if document["gpu"] else []):
        if gpu["idle"]:
            yield ""
            yield f"Device {gpu['device']} was idle because of"
        for cause in gpu["idle"]:
            yield _share(cause["cause"], cause["total_ns"], gpu["span_ns"])
    if document["categories"]:
        yield from _table("Kernels by kind", document["categories"], ("category", "count", "frac"))
    yield from _table("Kernels", document["kernels"][:top], ("name", "count", "frac"))
    yield from _table(
        "Operators, by own host time",
        document["operators"][:top],
        ("name", "count", "self_ns", "device_total_ns"),
    )
    columns = ("name", "count", "total_ns")
    yield from _table("Device time by module", document["modules"][:top], columns)
    yield from _table("Device time by source line", document["lines"][:top], columns)
    yield from _table(
        "Copies", document["copies"][:top], ("kind", "memory", "count", "bytes", "bytes_per_s")
    )
    if document["sync_count"]:
        yield ""
        yield (
            f"{document['sync_count']} synchronizing calls blocked the host for "
            f"{duration(document['sync_ns'])}; the longest:"
        )
        keys = ("name", "operator", "where", "blocked_ns")
        yield from _rows(document["syncs"][:top], keys, heads=True)
    yield from _path_lines(document, top)
    for finding in document["findings"]:
        yield ""
        yield f"[{finding['severity']}] {finding['title']}"
        yield f"  {finding['advice']}"
    yield from _table("Runtime calls", document["launches"]["calls"][:top], columns)
    if not document["steps"]:
        yield from _table("Host ranges", document["ranges"][:top], columns)
    if document["steps"]:
        yield ""
        yield f"{len(document['steps'])} steps:"
        yield from _rows(document["steps"][:top], ("name", "dur_ns"))


def _path_lines(document: Document, top: int) -> Iterator[str]:
    path, replay = document["critical_path"], document["what_if"]
    if path:
        columns = ("name", "kind", "count", "frac")
        yield from _table("Critical path", path["parts"][:top], columns)
    if replay:
        saved = [row for row in replay["savings"] if row["saved_ns"] > 0]
        yield from _table("Saved if gone", saved[:top], ("part", "part_ns", "saved_ns"))


def _table(title: str, rows: Sequence[Document], columns: Sequence[str]) -> Iterator[str]:
    if rows:
        yield ""
        yield title
        with_time = ("total_ns",) if "total_ns" in rows[0] and "total_ns" not in columns else ()
        yield from _rows(rows, (*columns, *with_time), heads=True)


def _rows(
    rows: Sequence[Document], columns: Sequence[str], *, heads: bool = False
) -> Iterator[str]:
    cells = [[_cell(column, row.get(column)) for column in columns] for row in rows]
    if heads:
        cells.insert(0, ["", *(_HEADS[column] for column in columns[1:])])
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    for line in cells:
        padded = (
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        )
        yield "  " + "  ".join(padded).rstrip()


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
