"""A trace's analysis, the difference of two, statistics and snapshots as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lightning_gpuprof.units import duration, percent, shortened, size
from lightning_gpuprof.views.text.blocks import aligned

Document = Mapping[str, Any]
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
    """Yield doubts of the times, each device's time, what is missing, then `top` rows of tables."""
    part = f", {document['window']['name']}" if document["window"] else ""
    yield f"{document['file']} ({document['source']}{part})"
    doubts = document["quality"]["doubts"]
    yield from (f"! {doubt}" for doubt in doubts)
    if doubts:
        yield "! No finding rests on these times."
    device, launched = document["device"], document["quality"]["launch_count"]
    if device is None and launched:
        yield f"{launched} kernels were launched, and none could be read: device time is not known."
    elif device is None and document["warnings"]:
        yield "No device events could be read: see the warnings below."
    elif device is None:
        yield "No device events: host time only."
    else:
        yield f"{device['count']} x {device['name'] or 'device, model not recorded'}"
    gpus = document.get("gpus", [document["gpu"]] if document["gpu"] else [])
    for gpu in gpus:
        yield f"\n{_extent(gpu, document['window'])}"
        for name, key in _PARTS:
            yield _share(name, gpu[key], gpu["span_ns"])
    yield from (f"\n! {warning}" for warning in document["warnings"] if warning not in doubts)
    for gpu in gpus:
        if gpu["idle"]:
            yield f"\nDevice {gpu['device']} was idle because of"
        for cause in gpu["idle"]:
            yield _share(cause["cause"], cause["total_ns"], gpu["span_ns"])
    if functions := document["idle_functions"][:top]:
        yield "\nMeanwhile the host was in the code of"
        rows = [
            (shortened(one["name"], NAME_WIDTH), duration(one["total_ns"])) for one in functions
        ]
        yield from _indented(rows)
    yield from _tables(document, top)


def _extent(gpu: Document, window: Document | None) -> str:
    whole, busy = duration(gpu["span_ns"]), percent(gpu["busy_frac"] or 0)
    steps = "1 whole step" if gpu["steps"] == 1 else f"{gpu['steps']} whole steps"
    of = f"of {steps}" if gpu["steps"] else "from first to last event"
    of = f"of {window['name']}" if window else of
    return f"Device {gpu['device']}: {whole} {of}, {busy} busy"


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


_SHOWN = 10
_SHOWN_SITES = 5
_DIFFERENCES = {
    "Device": "gpu",
    "Kernels by kind": "categories",
    "Kernels": "kernels",
    "Operators": "operators",
    "Copies": "copies",
}
_DIFF_PARTS = ("span_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")


def diff_lines(document: Document) -> Iterator[str]:
    """Yield the difference of two traces, the largest changes first."""
    yield f"{document['base']} -> {document['test']}"
    yield from (f"! {note}" for note in document["notes"])
    if document["per_step"]:
        before, after = document["base_step_ns"], document["test_step_ns"]
        yield f"Median step: {duration(before)} -> {duration(after)}  {_change(before, after)}"
    basis = " per step" if document["per_step"] else ""
    for title, key in _DIFFERENCES.items():
        rows = [row for row in document[key] if row["change"] != "same"]
        rows = [row for row in rows if key != "gpu" or row["name"] in _DIFF_PARTS][:_SHOWN]
        if rows:
            yield f"\n{title}, time{basis}"
            yield from _indented([_diff_cells(row) for row in rows])


def other_lines(document: Document, *, top: int) -> Iterator[str]:
    """Yield the document of a file without a timeline, `top` rows per table."""
    yield f"{document['file']} ({document['source']})"
    yield from (f"! {warning}" for warning in document["warnings"])
    if "devices" in document:
        yield from snapshot_lines(document)
        return
    yield from _stats_lines(document["stats"], top)
    for other in document["others"]:
        yield f"\n{other['kind']} statistics"
        yield from _stats_lines(other["stats"], top)
    counters = document["counters"]
    for row in counters[:top]:
        value = row["value"] if isinstance(row["value"], str) else f"{row['value']:,.6g}"
        kernel = shortened(row["kernel"], NAME_WIDTH)
        yield f"  {kernel}  {row['name']}: {value} {row['unit']}".rstrip()
    if len(counters) > top:
        yield f"  and {len(counters) - top:,} more values: see --json"


def snapshot_lines(document: Document) -> Iterator[str]:
    """Yield what a memory snapshot says of each device."""
    for device in document["devices"]:
        yield from _device_lines(device)


def _diff_cells(row: Document) -> tuple[str, ...]:
    before, after = row["base_ns"], row["test_ns"]
    change = row["change"] if row["change"] in ("added", "removed") else _change(before, after)
    return shortened(row["name"], NAME_WIDTH), duration(before), "->", duration(after), change


def _change(before: float, after: float) -> str:
    return f"{(after - before) / before:+.1%}" if before else ""


def _stats_lines(stats: Sequence[Document], top: int) -> Iterator[str]:
    yield from _indented(
        [
            (
                shortened(row["name"], NAME_WIDTH),
                f"{row['count']:,}",
                duration(row["total_ns"]),
                percent(row["frac"]) if row["frac"] is not None else "-",
            )
            for row in sorted(stats, key=lambda row: -row["total_ns"])[:top]
        ]
    )


def _indented(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from (f"  {line}" for line in aligned(rows))


def _device_lines(device: Document) -> Iterator[str]:
    peak = device["peak"]
    whole = peak["allocated_bytes"]
    kinds = sorted(peak["kind_bytes"].items(), key=lambda pair: -pair[1])
    shares = [f"{kind} {size(n)} ({percent(n / whole)})" for kind, n in kinds if n]
    reserved = device["reserved_bytes"]
    when = "" if reserved is None else f" at the peak of the history, {size(reserved)} reserved"
    yield f"device {device['device']}: {size(whole)} in use{when}"
    yield f"  by kind: {', '.join(shares) or 'nothing'}"
    for site in peak["sites"][:_SHOWN_SITES]:
        yield f"  {size(site['bytes'])} in {site['count']} blocks: {_place(site)}"
    for site in device["growing"]:
        rate = site["bytes_per_step"]
        pace = f", {size(rate)} per step" if rate is not None else ""
        yield f"  growing: {size(site['bytes'])}{pace}: {_place(site)}"


def _place(site: Document) -> str:
    if site["file"] is None:
        return "no stack was recorded"
    return f"{site['file']}:{site['line']} in {site['function']}"
