"""Sections on which lines hold a device's memory, from a snapshot of its allocator."""

from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.memory.memory_dump import DeviceDump, MemorySite
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Column,
    Figure,
    Figures,
    Place,
    Section,
    Table,
    Value,
)
from lightning_gpuprof.report.labels import MEMORY

MAX_SITES = 100
FIRST_SITES = 20
NO_STACK = Place(name="no stack was recorded")


def memory_sections(device: DeviceDump, *, number: int = 0) -> Iterator[Section]:
    """Yield the memory in use on one device, the lines that hold it, and the lines where it grows.

    `number` distinguishes the devices of a document: section ids end in it, except for the first.
    """
    suffix = f"_{number}" if number else ""
    name = f"Device {device.device}"
    yield Section(f"memory{suffix}", name, "first", (_figures(device), _kinds(device)))
    if device.peak.sites:
        sites = site_table("memory_sites", device.peak.sites, suffix)
        note = "allocations alive at the highest point of the history"
        title = f"Who holds the memory of device {device.device}"
        yield Section(f"memory_sites{suffix}", title, "page", (sites,), note=note)
    if device.growing:
        growing = site_table("memory_growth", device.growing, suffix)
        note = "lines whose memory grows from step to step without being released"
        title = f"What grows on device {device.device}"
        yield Section(f"memory_growth{suffix}", title, "page", (growing,), note=note)


def _figures(device: DeviceDump) -> Figures:
    history = device.allocated_bytes is not None
    at_peak = "at the peak of the history" if history else None
    figures = [
        Figure("peak_bytes", "in use", device.peak.allocated_bytes, "bytes", at_peak),
        Figure("reserved_bytes", "reserved", device.reserved_bytes, "bytes"),
        Figure("end_bytes", "at its end", device.allocated_bytes, "bytes"),
        Figure("before_bytes", "at its beginning", device.before_bytes, "bytes"),
        Figure("steps_count", "training steps", device.steps, "count"),
    ]
    if device.oom_count:
        figures.append(Figure("oom_count", "out of memory", device.oom_count, "count", "times"))
    measured = tuple(figure for figure in figures if figure.value is not None)
    return Figures(measured)


def _kinds(device: DeviceDump) -> Bars:
    whole = device.peak.allocated_bytes
    kinds = sorted(device.peak.kind_bytes.items(), key=lambda kind: -kind[1])
    bars = tuple(
        Bar(kind, MEMORY.get(kind, kind), held, held / whole if whole else None)
        for kind, held in kinds
        if held
    )
    return Bars("memory_kinds", "bytes", bars, value_label="In use")


def site_table(
    id: str, sites: Sequence[MemorySite], suffix: str = "", *, most: int = MAX_SITES
) -> Table:
    """Return the lines that hold memory as a table, at most so many."""
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("function", "Function", "code"),
        Column("bytes", "Memory", "bytes", bar=True),
        Column("count", "Blocks", "count"),
        Column("per_step_bytes", "Per step", "bytes"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "place": Place(file=site.file, line=site.line) if site.file else NO_STACK,
            "function": site.function,
            "bytes": site.bytes,
            "count": site.count,
            "per_step_bytes": site.bytes_per_step,
        }
        for site in sites[:most]
    )
    return Table(f"{id}{suffix}", columns, rows, first_rows=FIRST_SITES, sort="bytes")
