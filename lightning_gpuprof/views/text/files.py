"""Other documents of files as text: the difference of two traces, statistics, snapshots."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lightning_gpuprof.units import duration, percent, shortened, size
from lightning_gpuprof.views.text.blocks import aligned

Document = Mapping[str, Any]
NAME_WIDTH = 60
_SHOWN = 10
_SHOWN_SITES = 5
_DIFFERENCES = {
    "Device": "gpu",
    "Kernels by kind": "categories",
    "Kernels": "kernels",
    "Operators": "operators",
    "Copies": "copies",
}
_PARTS = ("span_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")


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
        rows = [row for row in rows if key != "gpu" or row["name"] in _PARTS][:_SHOWN]
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
    yield (
        f"device {device['device']}: {size(whole)} in use at the peak of the history, "
        f"{size(device['reserved_bytes'])} reserved"
    )
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
