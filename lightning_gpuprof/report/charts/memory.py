"""Device memory over a session: its peaks, and the batch size that would fill it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from lightning_gpuprof.analysis.memory.memory_dump import DeviceDump
from lightning_gpuprof.analysis.memory.memory_use import rank_advice
from lightning_gpuprof.analysis.run.sessions import same_session
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.schema import Advice, Device, Memory
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.memory_sites import last_snapshot
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Chart,
    Column,
    Part,
    Place,
    Section,
    Table,
    Text,
    Verdict,
)
from lightning_gpuprof.report.labels import MEMORY
from lightning_gpuprof.report.run.failure import failure_section
from lightning_gpuprof.units import percent, size

MAX_POINTS = 1_000


class MemoryPoint(Struct, frozen=True):
    """Device memory at a window's end; peaks are since the process began."""

    step: int
    allocated_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    total_bytes: int
    kind_bytes: dict[str, int]
    """At the peak, by kind of memory."""


class PeakOfSize(Struct, frozen=True):
    """The highest peak of a batch size."""

    samples: int
    peak_allocated_bytes: int


class BatchCurve(Struct, frozen=True):
    """Peak memory as a line over the batch size, and the sizes that fill the target band."""

    batch_size: int
    constant_bytes: float
    per_sample_bytes: float
    low: int | None
    high: int | None


class MemoryPayload(Struct, frozen=True):
    """Device memory over a session, and what batch size would fill it."""

    sections: tuple[Section, ...] = ()
    points: tuple[MemoryPoint, ...] = ()
    sizes: tuple[PeakOfSize, ...] = ()
    curve: BatchCurve | None = None
    nothing: str | None = None
    """Why no device memory was measured."""


def memory_view(run: LoadedRun, query: Query) -> MemoryPayload:
    """Return memory at the ends of windows, thinned out where there are many."""
    session = run.session(query)
    records = [record for record in session.all(Memory) if record.total_bytes > 0]
    report = run.report(query)
    leak = next((finding for finding in report.findings if finding.id == "memory-growth"), None)
    device = last_snapshot(run)
    failed = failure_section(report)
    sections = [_with_memory(failed, device)] if failed else []
    if not records:
        nothing = None if failed else _nothing(session.start.device)
        return MemoryPayload(tuple(sections), nothing=nothing)
    advice = rank_advice(same_session(run.ranks, session.start.session))
    if advice is not None and leak is not None:
        advice = None  # memory that grows fills the room for any batch
    if not failed:
        sections.append(_verdict(records, advice, leak, device))
    curve = _curve(advice) if advice else None
    sections.append(_over_the_run(records))
    sections += [section for section in (_kinds(records), _allocator(records)) if section]
    if advice is not None:
        sections.append(_batch_size(advice, curve))
    # Thinned from the end, so that the last point stays. Peaks only rise, so no peak is lost.
    thinned = records[:: -max(1, -(-len(records) // MAX_POINTS))][::-1]
    return MemoryPayload(
        sections=tuple(sections),
        points=tuple(_point(record) for record in thinned),
        sizes=tuple(_sizes(records)),
        curve=curve,
    )


def _point(record: Memory) -> MemoryPoint:
    return MemoryPoint(
        step=record.step,
        allocated_bytes=record.allocated_bytes,
        peak_allocated_bytes=record.peak_allocated_bytes,
        peak_reserved_bytes=record.peak_reserved_bytes,
        total_bytes=record.total_bytes,
        kind_bytes=record.kind_bytes,
    )


def _nothing(device: Device | None) -> str:
    if device is not None and device.type == "cpu":
        return (
            "This run trained on a CPU: there is no device memory to measure. On a GPU this view "
            "shows it over the run, by kind, with the peak and what batch size would fill it."
        )
    return "Device memory was not measured in this run."


def _with_memory(failure: Section, device: DeviceDump | None) -> Section:
    """Return the section on why the run ended, with what its device memory held."""
    if device is None:
        return failure
    text = Text((f"It held {size(device.peak.allocated_bytes)}: {_filled(device)}.",))
    return replace(failure, body=(*failure.body, text))


def _filled(device: DeviceDump) -> str:
    """Return the kinds of memory and the line that hold the most at the peak."""
    kinds = sorted(device.peak.kind_bytes.items(), key=lambda item: -item[1])
    texts = [
        f"{kind.replace('_', ' ')} {size(held)}"
        for kind, held in kinds[:3]
        if held > 0.01 * device.peak.allocated_bytes
    ]
    if device.peak.sites and device.peak.sites[0].file:
        line = device.peak.sites[0]
        texts.append(f"the most at {short_path(line.file or '')}:{line.line} ({size(line.bytes)})")
    return ", ".join(texts)


def _verdict(
    records: Sequence[Memory],
    advice: Advice | None,
    leak: Finding | None,
    device: DeviceDump | None,
) -> Section:
    """Return what grows and at which line, or how full the device is and which batch fills it."""
    if leak is not None:
        line = device.growing[0] if device and device.growing else None
        place = Place(file=line.file, line=line.line, function=line.function) if line else None
        verdict = Verdict(
            kind="change",
            label="Leak",
            title=leak.title,
            sentence=leak.advice,
            finding=leak.id,
            place=place if line and line.file else None,
        )
        return Section("verdict", "Verdict", "first", (verdict,))
    last, peak = records[-1], max(record.peak_reserved_bytes for record in records)
    title = f"The peak takes {percent(peak / last.total_bytes)} of {size(last.total_bytes)}"
    batch = advice.suggested_batch_size if advice else None
    sentence = f"Batch size {batch:,} fills it." if batch else ""
    verdict = Verdict(kind="limit", label="Verdict", title=title, sentence=sentence)
    return Section("verdict", "Verdict", "first", (verdict,))


def _over_the_run(records: Sequence[Memory]) -> Section:
    last, peak = records[-1], max(record.peak_reserved_bytes for record in records)
    note = (
        f"At most {size(peak)} of {size(last.total_bytes)} reserved. Lines are peaks since the "
        "process began, and the memory between steps; areas are the peak by kind."
    )
    title = "Device memory over the run"
    return Section("memory", title, "page", (Chart("memory", title),), note)


def _kinds(records: Sequence[Memory]) -> Section:
    last = records[-1]
    whole = sum(last.kind_bytes.values())
    bars = tuple(
        Bar(kind, MEMORY.get(kind, kind), held, held / whole)
        for kind, held in last.kind_bytes.items()
        if held > 0
    )
    if not bars:
        text = Text(("Kinds of memory were not measured.",), "note")
        return Section("memory_kinds", "By kind", "page", (text,))
    body = Bars("memory_kinds", "bytes", bars, value_label="Memory")
    note = f"Memory at the peak, as of step {last.step:,}."
    return Section("memory_kinds", "By kind", "page", (body,), note)


def _allocator(records: Sequence[Memory]) -> Section | None:
    """Return the allocator's own breakdown."""
    last = records[-1]
    if not last.allocator_bytes:
        return None
    inactive = last.allocator_bytes.get("inactive_split", {}).get("all") or 0
    fragmented = percent(inactive / max(1, last.reserved_bytes))
    pools = list(next(iter(last.allocator_bytes.values())))
    columns = (
        Column("name", "Memory", "text"),
        *(Column(f"{pool}_bytes", pool.replace("_", " "), "bytes") for pool in pools),
    )
    rows = tuple(
        {"name": name.replace("_", " "), **{f"{pool}_bytes": held.get(pool) for pool in pools}}
        for name, held in last.allocator_bytes.items()
    )
    note = (
        f"As of step {last.step:,}: fragmentation {fragmented} (inactive split of reserved), "
        f"{last.alloc_retries or 0:,} retries, {last.ooms or 0:,} times out of memory."
    )
    return Section("allocator", "Allocator", "page", (Table("allocator", columns, rows),), note)


def _batch_size(advice: Advice, curve: BatchCurve | None) -> Section:
    suggested = advice.suggested_batch_size
    body: list[Part] = []
    if (rank := advice.details.rank) is not None:
        ranks = advice.details.ranks_advised
        text = (
            f"One batch size goes to every rank: rank {rank} of the {ranks} that measured their "
            "memory has the least room, and decides."
        )
        body.append(Text((text,), "note"))
    if suggested and advice.reason:
        body.append(Text((advice.reason,), "note"))
    if curve is not None:
        body.append(Chart("batch_size", "Peak memory by batch size, measured and predicted"))
    note = f"No suggestion: {advice.reason}."
    if suggested:
        band = f": {advice.low:,} to {advice.high:,} fill the target band"
        note = f"{suggested:,} instead of {advice.batch_size:,}"
        note += "." if advice.low == advice.high else f"{band}."
    return Section("batch_size", "Batch size", "page", tuple(body), note)


def _curve(advice: Advice) -> BatchCurve | None:
    constant = advice.details.constant_bytes
    slope = advice.details.per_sample_bytes
    if constant is None or not slope:
        return None
    return BatchCurve(advice.batch_size, constant, slope, advice.low, advice.high)


def _sizes(records: Sequence[Memory]) -> Iterator[PeakOfSize]:
    """Yield the highest peak for every batch size that raised the peak."""
    peaks: dict[int, int] = {}
    for record in records:
        if record.samples:
            highest = max(record.peak_allocated_bytes, peaks.get(record.samples, 0))
            peaks[record.samples] = highest
    yield from (PeakOfSize(samples, peaks[samples]) for samples in sorted(peaks))
