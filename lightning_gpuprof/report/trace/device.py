"""How a trace's device spends its time, why it is idle, what makes the host wait, and copies."""

from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.trace.kernel_category import kernel_name
from lightning_gpuprof.analysis.trace_tables import (
    DeviceSplit,
    IdleCause,
    SourceLine,
    TimeSplit,
    TraceAnalysis,
)
from lightning_gpuprof.report.document import (
    Bar,
    Bars,
    Column,
    Figure,
    Figures,
    Part,
    Place,
    Section,
    Table,
    Text,
    Value,
)
from lightning_gpuprof.report.labels import idle_label
from lightning_gpuprof.units import duration, percent

FIRST_FUNCTIONS = 5
FIRST_ROWS = 8
PARTS = (
    ("kernel_gemm", "Compute", "compute_ns"),
    ("kernel_communication", "Communication not hidden", "exposed_comm_ns"),
    ("memcpy", "Copies not hidden", "exposed_copy_ns"),
    ("idle", "Idle", "idle_ns"),
)
"""Parts of a device's time, with the kind of event whose colour is used."""
WAITS_FOR = {"device": "the whole device", "copy": "its own copy", "other": "something else"}


def device_sections(analysis: TraceAnalysis, *, first_rows: int = FIRST_ROWS) -> Iterator[Section]:
    """Yield the device's time, why it was idle, what made the host wait, and copies."""
    yield from warning_sections(analysis)
    yield from time_sections(analysis)
    yield from idle_sections(analysis, first_rows)
    yield from sync_sections(analysis, first_rows)
    yield from copy_sections(analysis)


def warning_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield warnings: times in doubt, missing events, and steps that are left out."""
    if analysis.warnings:
        yield Section("warnings", "", "first", (Text(analysis.warnings, "warning"),))


def time_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield how the time of every device is divided, beginning with the first device."""
    devices = analysis.gpus or ((analysis.gpu,) if analysis.gpu is not None else ())
    for number, split in enumerate(devices):
        if split.span_ns:
            yield _time_split(split, analysis, number)


def _time_split(split: DeviceSplit, analysis: TraceAnalysis, number: int) -> Section:
    times = {name: getattr(split, name) for _, _, name in PARTS}
    bars = tuple(
        Bar(key, label, times[name], times[name] / split.span_ns)
        for key, label, name in PARTS
        if times[name]
    )
    where = " from its first event to its last"
    if analysis.window is not None:
        where = f" in {analysis.window.name}"
    elif split.steps:
        where = f" in {split.steps:,} whole {'step' if split.steps == 1 else 'steps'}"
    note = (
        f"Busy {percent(split.busy_frac or 0)} of {duration(split.span_ns)}{where}, with the "
        "profiler on, by the device's clock: any kernel, copy or fill in any stream."
    )
    suffix = f"_{number}" if number else ""
    title = "The device's time"
    if analysis.gpus:
        rank = f" ({split.rank})" if split.rank else ""
        title = f"The time of device {split.device}{rank}"
    part = Bars(f"device_time{suffix}", "ns", bars, value_label="Time")
    return Section(f"device_time{suffix}", title, "first", (part,), note)


def device_figures_section(analysis: TraceAnalysis) -> Section | None:
    """Return the times of all devices; for those after the first also why they were idle."""
    devices = analysis.gpus or ((analysis.gpu,) if analysis.gpu is not None else ())
    body: list[Part] = []
    for number, split in enumerate(devices):
        suffix = f"_{number}" if number else ""
        figures = _split_figures(split, suffix, "")
        if split.first_to_last is not None:
            figures += _split_figures(
                split.first_to_last, suffix, "first_to_last_", " from first to last event"
            )
        rank = f", {split.rank}" if split.rank else ""
        body.append(Figures(figures, title=f"Device {split.device}{rank}"))
        if number and split.idle:
            body.append(_idle_table(split.idle, suffix))
    if not body:
        return None
    return Section("device_figures", "The devices' times", "verbose", tuple(body))


def _split_figures(split: TimeSplit, suffix: str, prefix: str, of: str = "") -> tuple[Figure, ...]:
    labels = {
        "span_ns": "span",
        "busy_ns": "busy",
        "idle_ns": "idle",
        "compute_ns": "compute",
        "comm_ns": "communication",
        "copy_ns": "copies",
        "exposed_comm_ns": "communication not hidden",
        "exposed_copy_ns": "copies not hidden",
    }
    figures = []
    for key, label in labels.items():
        name = f"{prefix}{key.removesuffix('_ns')}{suffix}_ns"
        figures.append(Figure(name, f"{label}{of}", getattr(split, key), "ns"))
    return tuple(figures)


def idle_sections(analysis: TraceAnalysis, first_rows: int) -> Iterator[Section]:
    """Yield why the first device was idle, and what the host ran meanwhile."""
    if not analysis.idle:
        return
    body: list[Part] = [_idle_table(analysis.idle)]
    if analysis.idle_functions:
        body.append(_idle_functions(analysis))
    if analysis.gaps:
        body.append(_gaps(analysis, first_rows))
    note = "Every nanosecond of every gap has one cause. A click shows the gap in the timeline."
    yield Section("idle", "Why the device was idle", "page", tuple(body), note)


def _idle_table(causes: Sequence[IdleCause], suffix: str = "") -> Table:
    columns = (
        Column("label", "Cause", "text"),
        Column("count", "Gaps", "count"),
        Column("total_ns", "Time", "ns"),
        Column("kind", "Kind", "code", detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "label": idle_label(row.cause),
            "count": row.count,
            "total_ns": row.total_ns,
            "kind": f"idle_{row.cause}",
        }
        for row in causes
    )
    return Table(f"idle{suffix}", columns, rows, color="kind")


def _idle_functions(analysis: TraceAnalysis) -> Table:
    columns = (
        Column("name", "Meanwhile the host was in the code of", "code", keep_end=True),
        Column("total_ns", "Time", "ns", bar=True),
        Column("where", "Line", "place", keep_end=True, detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {"name": row.name, "total_ns": row.total_ns, "where": place(row.where)}
        for row in analysis.idle_functions
    )
    return Table("idle_functions", columns, rows, first_rows=FIRST_FUNCTIONS)


def _gaps(analysis: TraceAnalysis, first_rows: int) -> Table:
    columns = (
        Column("label", "Longest gaps", "text"),
        Column("dur_ns", "Time", "ns", bar=True),
        Column("next", "Ended by", "place"),
        Column("operator", "Operator", "code"),
        Column("start_ns", "Starts at", "ns", detail="verbose"),
        Column("kind", "Kind", "code", detail="verbose"),
        Column("region", "Region", "code", detail="verbose"),
        Column("where", "Line", "place", keep_end=True, detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "label": idle_label(gap.cause),
            "dur_ns": gap.dur_ns,
            "next": kernel_place(gap.next_name) if gap.next_name else None,
            "operator": gap.operator,
            "start_ns": gap.start_ns,
            "kind": f"idle_{gap.cause}",
            "region": gap.region,
            "where": place(gap.where),
        }
        for gap in analysis.gaps
    )
    return Table("gaps", columns, rows, first_rows=first_rows, opens="timeline", color="kind")


def sync_sections(analysis: TraceAnalysis, first_rows: int) -> Iterator[Section]:
    """Yield the calls that made the host wait for the device, and what they wait for."""
    if not analysis.sync_count:
        return
    columns = (
        Column("name", "Call", "code"),
        Column("dur_ns", "Blocked", "ns", bar=True),
        Column("where", "Line", "place", keep_end=True),
        Column("within", "In", "code"),
        Column("start_ns", "Starts at", "ns", detail="verbose"),
        Column("kind", "Waits for", "text", detail="verbose"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "name": call.name,
            "dur_ns": call.blocked_ns,
            "where": place(call.where),
            "within": call.operator or call.region,
            "start_ns": call.start_ns,
            "kind": call.kind or None,
        }
        for call in analysis.syncs
    )
    where = "the steps" if analysis.steps else "the whole trace"
    calls = "call" if analysis.sync_count == 1 else "calls"
    note = (
        f"{analysis.sync_count:,} {calls} in {where} made the host wait for the device, "
        f"{duration(analysis.sync_ns or 0)} together."
    )
    if analysis.upload_wait_ns:
        note += f" {duration(analysis.upload_wait_ns)} of it in copies from pageable memory."
    table = Table("syncs", columns, rows, first_rows=first_rows, opens="timeline")
    yield Section("syncs", "Host syncs", "page", (table,), note)
    if analysis.sync_kinds:
        yield _sync_kinds(analysis)


def _sync_kinds(analysis: TraceAnalysis) -> Section:
    columns = (
        Column("label", "Waits for", "text"),
        Column("count", "Calls", "count"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("where", "Line", "place", keep_end=True),
        Column("cheaper", "If it has to stay", "text"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "id": kind.name,
            "label": WAITS_FOR.get(kind.name, f"a single {kind.name}"),
            "count": kind.count,
            "total_ns": kind.total_ns,
            "where": place(kind.where),
            "cheaper": kind.cheaper,
        }
        for kind in analysis.sync_kinds
    )
    note = "Waiting for the whole device holds up every stream; what has to stay can wait for less."
    table = Table("sync_kinds", columns, rows)
    return Section("sync_kinds", "What the syncs wait for", "page", (table,), note)


def copy_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield copies by direction and kind of host memory."""
    if not analysis.copies:
        return
    columns = (
        Column("kind", "Kind", "text"),
        Column("count", "Copies", "count"),
        Column("memory", "Host memory", "text"),
        Column("bytes", "Bytes", "bytes"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("bytes_per_s", "Rate", "bytes_per_s"),
    )
    rows: tuple[dict[str, Value], ...] = tuple(
        {
            "kind": copy.kind,
            "count": copy.count,
            "memory": copy.memory,
            "bytes": copy.bytes,
            "total_ns": copy.total_ns,
            "bytes_per_s": copy.bytes_per_s,
        }
        for copy in analysis.copies
    )
    note = (
        "By direction and kind of host memory: pinned memory copies faster and without making the "
        "host wait."
    )
    yield Section("copies", "Copies", "page", (Table("copies", columns, rows),), note)


def place(line: SourceLine | None) -> Place | None:
    """Return a line of the user's code as a place."""
    if line is None:
        return None
    return Place(file=line.file, line=line.line, function=line.function or None)


def kernel_place(kernel: str) -> Place:
    """Return a kernel as a place that is shown by the name without type and parameters."""
    return Place(kernel=kernel, name=kernel_name(kernel))
