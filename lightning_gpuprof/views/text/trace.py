"""A trace's analysis, the difference of two, statistics and snapshots as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.traces.timeline import OCCUPANCY
from lightning_gpuprof.units import duration, percent, quantity, shortened, size
from lightning_gpuprof.views.documents.gpu_words import kernel_facts, to_calls_line, trace_verdict
from lightning_gpuprof.views.text.terminal import PLAIN, Terminal

Document = Mapping[str, Any]
NAME_WIDTH = 60
_PARTS = (
    ("Compute", "compute_ns"),
    ("Communication not hidden", "exposed_comm_ns"),
    ("Copies not hidden", "exposed_copy_ns"),
    ("Idle", "idle_ns"),
)
CAUSE_NAMES = {
    "host_data_wait": "Waiting for data",
    "host_sync": "Host waits for the device",
    "host_allocator": "Device allocation",
    "host_launch_call": "Launch call",
    "host_operator": "Operator on the host",
    "host_region": "Inside an annotation",
    "host_python": "Python, or nothing recorded",
    "launch_latency": "Launch latency",
    "kernel_gap": "Between queued kernels",
    "dependency": "Waiting for another stream",
    "unknown": "Unknown",
}
"""As the tab names them (`static/timeline/colors.js`; a test compares them)."""
HEADS = {
    "count": "calls",
    "frac": "share",
    "total_ns": "time",
    "self_ns": "host self",
    "device_self_ns": "device self",
    "memory": "host memory",
    "bytes_per_s": "rate",
    "operator": "in",
    "where": "line",
    "blocked_ns": "blocked",
    "occupancy_frac": "occupancy",
    "blocks_per_sm": "blocks/SM",
    "warps_per_sm": "warps/SM",
    "mean_frac": "mean",
    "max_frac": "highest",
    "sm_frac": "SM",
    "dram_frac": "DRAM",
    "kind": "on",
    "dur_ns": "time",
}
_TIMES = ("name", "count", "total_ns")
_OPERATORS = ("name", "count", "device_self_ns", "self_ns", "total_ns")
_TABLES = (
    ("Why the device was idle", "idle", ("cause", "count", "total_ns")),
    ("Meanwhile the host was in the code of", "idle_functions", ("name", "total_ns")),
    ("Copies", "copies", ("kind", "memory", "count", "bytes", "bytes_per_s", "total_ns")),
    ("Kernels by kind", "categories", ("category", "count", "frac", "total_ns")),
    ("Kernels", "kernels", ("name", "count", "frac", "total_ns", *OCCUPANCY)),
    ("Sampled on the device", "gpu_metrics", ("name", "device", "count", "mean_frac", "max_frac")),
    ("Operators", "operators", _OPERATORS),
    ("Modules", "modules", _TIMES),
    ("Source lines", "lines", _TIMES),
)


def trace_lines(document: Document, *, top: int, on: Terminal) -> Iterator[str]:
    """Yield a verdict and a change, then what they rest on: `top` rows of each table."""
    part = f", {document['window']['name']}" if document["window"] else ""
    yield on.styled(f"{document['file']} ({document['source']}{part})", "dim")
    limit, change = trace_verdict(document)
    yield on.wrapped(limit, "bold")
    yield on.wrapped(change)
    for number, finding in enumerate(document["findings"], start=1):
        yield on.wrapped(f"{number}. [{finding['severity']}] {finding['title']}", "bold")
        if finding["advice"] != change:
            yield on.wrapped(f"   {finding['advice']}")
    doubts, device = document["quality"]["doubts"], document["device"]
    said = [*doubts, *(one for one in document["warnings"] if one not in doubts)]
    if said:
        yield ""
    yield from (on.wrapped(f"! {one}", "yellow") for one in said)
    if device is not None:
        yield f"\n{device['count']} x {device['name'] or 'device, model not recorded'}"
    for gpu in document.get("gpus", [document["gpu"]] if document["gpu"] else []):
        steps = "1 whole step" if gpu["steps"] == 1 else f"{gpu['steps']} whole steps"
        of = f"of {steps}" if gpu["steps"] else "from first to last event"
        of = f"of {document['window']['name']}" if document["window"] else of
        took, busy = duration(gpu["span_ns"]), percent(gpu["busy_frac"] or 0)
        yield on.styled(f"Device {gpu['device']}: busy {busy} of {took} {of}", "bold")
        whole = gpu["span_ns"] or 1
        rows = [(name, duration(gpu[key]), percent(gpu[key] / whole)) for name, key in _PARTS]
        yield from _indented(rows)
    if document["kernels"]:
        yield ""
        yield on.wrapped(", ".join(kernel_facts(document)))
    if moved := to_calls_line(document):
        yield on.wrapped(moved)
    yield from _tables(document, top, on)


def _tables(document: Document, top: int, on: Terminal) -> Iterator[str]:
    rows = {key: document[key] for _, key, _ in _TABLES}
    rows["kernels"] = [{**row, "name": kernel_name(row["name"])} for row in rows["kernels"]]
    if any(row.get("device_self_ns") for row in rows["operators"]):
        rows["operators"] = sorted(rows["operators"], key=lambda row: -(row["device_self_ns"] or 0))
    blocked = f"{document['sync_count']} calls blocked the host for {duration(document['sync_ns'])}"
    path, waits = document["critical_path"] or {"parts": []}, document["sync_kinds"]
    for title, found, columns in (
        *((title, rows[key], columns) for title, key, columns in _TABLES),
        (f"Host syncs: {blocked}", document["syncs"], ("name", "operator", "where", "blocked_ns")),
        ("Host syncs by what they wait for", waits, ("name", "count", "where", "total_ns")),
        ("Critical path", path["parts"], ("name", "kind", "count", "frac", "total_ns")),
        ("Runtime calls", document["launches"]["calls"], _TIMES),
        ("Steps", document["steps"], ("name", "dur_ns")),
        ("Host ranges", [] if document["steps"] else document["ranges"], _TIMES),
    ):
        yield from _table(title, found[:top], columns, on)
        if found is waits:
            stay = [f"  {one['name']}, if it has to stay: {one['cheaper']}" for one in waits]
            yield from map(on.wrapped, stay)


def _table(
    title: str, rows: Sequence[Document], columns: Sequence[str], on: Terminal
) -> Iterator[str]:
    if rows:
        yield f"\n{on.styled(title, 'bold')}"
        columns = [one for one in columns if any(row.get(one) is not None for row in rows)]
        heads = ["", *(HEADS.get(column, column) for column in columns[1:])]
        yield from _indented(
            [heads, *([cell(column, row.get(column)) for column in columns] for row in rows)],
            on=on,
        )


def cell(column: str, value: Any) -> str:
    """Format by the unit at the end of the column's name.

    >>> cell("total_ns", 1500), cell("frac", 0.5), cell("bytes", None)
    ('1.50 µs', '50.0%', '-')
    """
    if value is None:
        return "-"
    if column.endswith("_ns"):
        return duration(value)
    if column.endswith("frac"):
        return percent(value)
    if column in ("bytes", "bytes_per_s"):
        return size(value) + ("/s" if column.endswith("_per_s") else "")
    if column == "count":
        return f"{value:,}"
    if column.endswith("_per_sm"):
        return f"{value:,.1f}"
    if isinstance(value, float):
        return f"{value:.3g}"
    if column == "cause":
        return CAUSE_NAMES.get(value, str(value))
    text = f"{value['file']}:{value['line']}" if column == "where" else str(value)
    return shortened(text, NAME_WIDTH)


BEFORE_AFTER = ("base", "new", "change", "wanted", "as wanted")
_SHOWN = 10
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
    if figures := [before_after_cells(one) for one in document["before_after"]]:
        yield "\nBefore and after"
        yield from _indented([("", *BEFORE_AFTER), *figures])
    basis = " per step" if document["per_step"] else ""
    for title, key in _DIFFERENCES.items():
        rows = [row for row in document[key] if row["change"] != "same"]
        rows = [row for row in rows if key != "gpu" or row["name"] in _DIFF_PARTS][:_SHOWN]
        if rows:
            yield f"\n{title}, time{basis}"
            yield from _indented([_diff_cells(row) for row in rows])


def before_after_cells(figure: Document) -> tuple[str, ...]:
    """Return a figure of `before_after` as cells: its name, both values, the change, as wanted."""
    name, sides = figure["name"], (figure["base"], figure["new"])
    as_is = figure["wanted"] == "same"  # a value that the program recorded
    shown = (f"{one:.6g}" if as_is else quantity(name, one) for one in sides)
    said = {None: "unchanged", True: "yes", False: "no"}[figure["as_wanted"]]
    return figure["label"], *shown, _change(*sides), figure["wanted"], said


def _diff_cells(row: Document) -> tuple[str, ...]:
    before, after = row["base_ns"], row["test_ns"]
    change = row["change"] if row["change"] in ("added", "removed") else _change(before, after)
    return shortened(row["name"], NAME_WIDTH), duration(before), "->", duration(after), change


def _change(before: float, after: float) -> str:
    return f"{(after - before) / before:+.1%}" if before else ""


def _indented(
    rows: Sequence[Sequence[str]], *, left: Sequence[int] = (0,), on: Terminal = PLAIN
) -> Iterator[str]:
    yield from (f"  {line}" for line in aligned(rows, left, on.width))


LEAST_NAME = 16


def aligned(
    rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), width: int | None = None
) -> list[str]:
    """Return rows as lines with aligned columns; cut to a width in the first.

    >>> aligned([("name", "time"), ("a", "1.5 ms")])
    ['name    time', 'a     1.5 ms']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None and sum(widths) + 2 * len(widths) > width:
        widths[0] = max(LEAST_NAME, width - sum(widths[1:]) - 2 * len(widths))
        rows = [(shortened(name, widths[0]), *row) for name, *row in rows]
    return [
        "  ".join(
            text.ljust(width) if i in left else text.rjust(width)
            for i, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
