"""What a trace's analysis says in tables and figures, as sections of a document.

The analysis may be of an older version or of another profiler: what it lacks is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

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
from lightning_gpuprof.units import duration, percent, size

Analysis = Mapping[str, Any]
Row = Mapping[str, Any]
MAX_ROWS = 2_000
"""Tables are sorted and searched in the page; a row is about 150 bytes."""
MAX_DEVICE_ROWS = 100
FIRST_ROWS = 20
MOST_WARNINGS = 4

_PLACE = Column("where", "Line", "place", keep_end=True)
_TOTAL = Column("total_ns", "Time", "ns", bar=True)
_START = Column("start_ns", "Starts at", "ns", detail="verbose")


def operator_sections(
    analysis: Analysis, allocated_bytes: Mapping[str, int] | None = None
) -> tuple[Section, ...]:
    """Return operators, kernels, modules and source lines, largest first.

    Args:
        analysis: The analysis of a trace.
        allocated_bytes: By operator, memory allocated while it was the innermost one.
    """
    operators = [
        {**row, "allocated_bytes": (allocated_bytes or {}).get(row["name"])}
        for row in _rows(analysis, "operators")
    ]
    on_device = any(row.get("device_self_ns") for row in operators)
    of = "device_self_ns" if on_device else "self_ns"
    clock = "Device" if on_device else "Host"
    sections = (
        _figures(analysis),
        _listing(
            analysis,
            "operators",
            "Operators",
            f"{clock} self time per step: outside the operators that one calls.",
            operators,
            of,
        ),
        _listing(
            analysis,
            "kernels",
            "Kernels",
            "What ran on the device, by the device's clock.",
            [{**row, "name": Place(kernel=row["name"])} for row in _rows(analysis, "kernels")],
            "total_ns",
        ),
        _listing(
            analysis,
            "modules",
            "Modules",
            "Device time of what was launched inside each module.",
            _rows(analysis, "modules"),
            "total_ns",
        ),
        _listing(
            analysis,
            "lines",
            "Source lines",
            "Device time of what was launched from each line of your own code.",
            _rows(analysis, "lines"),
            "total_ns",
        ),
    )
    return tuple(section for section in sections if section is not None)


def device_sections(analysis: Analysis) -> tuple[Section, ...]:
    """Return the device's time, why it was idle, what made the host wait, and copies."""
    warnings = tuple(str(text) for text in analysis.get("warnings") or ())[:MOST_WARNINGS]
    sections = (
        Section("warnings", "", "first", (Text(warnings, "warning"),)) if warnings else None,
        _time_split(analysis),
        _idle(analysis),
        _syncs(analysis),
        _sync_kinds(analysis),
        _copies(analysis),
    )
    return tuple(section for section in sections if section is not None)


_LISTING = (
    Column("category", "Kind", "text"),
    _PLACE,
    Column("step_ns", "Per step", "ns", note="the column sorted by, over the profiled steps"),
    Column("step_frac", "% of step", "frac", note="of the profiled step"),
    Column("count", "Calls", "count"),
    Column("self_ns", "Host self", "ns", note="host time not in operators that it called"),
    Column("total_ns", "Total", "ns"),
    Column("device_self_ns", "Device self", "ns", note="of the kernels that it launched itself"),
    Column("device_total_ns", "Device total", "ns", note="of all kernels launched under it"),
    Column("device_count", "Launches", "count", note="kernels, copies and fills it launched"),
    Column(
        "allocated_bytes",
        "Allocated",
        "bytes",
        note="memory allocated while it was the innermost operator, over the profiled steps",
    ),
    Column("mean_ns", "Mean", "ns"),
    Column("min_ns", "Min", "ns"),
    Column("max_ns", "Max", "ns"),
    Column("frac", "Share", "frac"),
    Column(
        "occupancy_frac",
        "Occupancy",
        "frac",
        note="the profiler's estimate, over the time of the launches: warps in flight of those "
        "that fit",
    ),
    Column(
        "blocks_per_sm",
        "Blocks/SM",
        "count",
        note="thread blocks launched per multiprocessor; below 1 some have nothing to do",
    ),
    Column("warps_per_sm", "Warps/SM", "count", note="warps launched per multiprocessor"),
    Column("tensor_cores", "Tensor cores", "flag"),
)


def _listing(
    analysis: Analysis, id: str, title: str, note: str, rows: Sequence[Row], of: str
) -> Section | None:
    """Return a long table; `of` is the time that is divided by the profiled steps."""
    if not rows:
        return None
    steps = _step_times(analysis)
    sort = "step_ns" if sum(steps) else of
    name = Column("name", "Name", "place" if id == "kernels" else "code")
    columns = tuple(
        _with(column, bar=column.key == sort, label=_label(column, id)) for column in _LISTING
    )
    table = Table(
        id=id,
        columns=(name, *columns),
        rows=tuple(_cells(_per_step(row, of, steps), (name, *columns)) for row in rows[:MAX_ROWS]),
        first_rows=FIRST_ROWS,
        sort=sort,
        searchable=True,
    )
    return Section(id, title, "page", (table,), note)


def _label(column: Column, id: str) -> str:
    return "Host total" if column.key == "total_ns" and id == "operators" else column.label


def _with(column: Column, *, bar: bool, label: str) -> Column:
    return Column(column.key, label, column.unit, column.note, bar, keep_end=column.keep_end)


def _per_step(row: Row, of: str, steps: Sequence[int]) -> Row:
    whole, time = sum(steps), row.get(of)
    if not whole or time is None:
        return row
    return {**row, "step_ns": time / len(steps), "step_frac": time / whole}


def _figures(analysis: Analysis) -> Section | None:
    figures = tuple(_trace_figures(analysis))
    return Section("trace_figures", "The trace", "page", (Figures(figures),)) if figures else None


def _trace_figures(analysis: Analysis) -> Iterator[Figure]:
    gpu, steps = analysis.get("gpu"), len(_step_times(analysis))
    if gpu:
        note = "of the profiled steps: any kernel, copy or fill"
        yield Figure("busy_frac", "Device busy", gpu.get("busy_frac"), "frac", note)
    if (frac := analysis.get("gemm_frac")) is not None:
        yield Figure("gemm_frac", "Matrix multiplies", frac, "frac", "of kernel time")
    if (frac := analysis.get("tensor_core_frac")) is not None:
        note = "of multiply, convolution and attention time, by kernel names"
        yield Figure("tensor_core_frac", "On tensor cores", frac, "frac", note)
    occupancy = analysis.get("occupancy") or {}
    if (frac := occupancy.get("occupancy_frac")) is not None:
        blocks, warps = occupancy.get("blocks_per_sm") or 0, occupancy.get("warps_per_sm") or 0
        launched = f"{blocks:.1f} blocks and {warps:.1f} warps launched per SM"
        note = f"of the warps that fit, over kernel time; {launched}"
        yield Figure("occupancy_frac", "Occupancy", frac, "frac", note)
    yield from _conversions(analysis, steps)
    launches = analysis.get("launches") or {}
    if overhead := launches.get("overhead"):
        note = f"median of {launches.get('count') or 0:,} launches"
        yield Figure("launch_ns", "Launch call", overhead.get("median_ns"), "ns", note)
    if delay := launches.get("delay"):
        note = "median; long means that the device is behind the host"
        yield Figure("launch_to_start_ns", "Launch to start", delay.get("median_ns"), "ns", note)
    if short := analysis.get("thin_kernels"):
        together = duration(short.get("total_ns") or 0)
        note = f"below 10 µs: {short.get('count') or 0:,}, {together} together"
        yield Figure("short_kernel_frac", "Short kernels", short.get("count_frac"), "frac", note)


def _conversions(analysis: Analysis, steps: int) -> Iterator[Figure]:
    calls = {row["name"]: row.get("count") or 0 for row in _rows(analysis, "operators")}
    if not calls.get("aten::to"):
        return
    moved = analysis.get("to_bytes")
    copies = calls.get("aten::_to_copy", 0) / (steps or 1)
    amount = "" if moved is None else f" {size(moved / (steps or 1))}"
    per_step = " per step" if steps else ""
    note = f"calls{per_step}; {copies:,.4g} of them copy{amount}"
    yield Figure("to_count", ".to() and .cuda()", calls["aten::to"] / (steps or 1), "count", note)


def _time_split(analysis: Analysis) -> Section | None:
    gpu = analysis.get("gpu")
    if not gpu or not gpu.get("span_ns"):
        return None
    span, steps = gpu["span_ns"], gpu.get("steps")
    parts = (
        ("kernel_gemm", "Compute", gpu.get("compute_ns")),
        ("kernel_communication", "Communication not hidden", gpu.get("exposed_comm_ns")),
        ("memcpy", "Copies not hidden", gpu.get("exposed_copy_ns")),
        ("idle", "Idle", gpu.get("idle_ns")),
    )
    bars = tuple(Bar(key, label, ns, ns / span) for key, label, ns in parts if ns)
    whole = f" in {steps:,} whole {'step' if steps == 1 else 'steps'}" if steps else ""
    note = (
        f"Busy {percent(gpu.get('busy_frac') or 0)} of {duration(span)}{whole}, with the profiler "
        "on, by the device's clock: any kernel, copy or fill of any stream."
    )
    body = Bars("device_time", "ns", bars, value_label="Time")
    return Section("device_time", "The device's time", "page", (body,), note)


def _idle(analysis: Analysis) -> Section | None:
    causes = _rows(analysis, "idle")
    if not causes:
        return None
    columns = (
        Column("label", "Cause", "text"),
        Column("count", "Gaps", "count"),
        _with(_TOTAL, bar=False, label="Time"),
        Column("kind", "Kind", "code", detail="verbose"),
    )
    body: list[Part] = [Table("idle", columns, _all(causes, columns, _cause), color="kind")]
    if functions := _rows(analysis, "idle_functions"):
        name = Column("name", "Meanwhile the host was in the code of", "code", keep_end=True)
        rows = _all(functions, (name, _TOTAL))
        body.append(Table("idle_functions", (name, _TOTAL), rows, first_rows=5))
    if gaps := _rows(analysis, "gaps"):
        gap_columns = (
            Column("label", "Longest gaps", "text"),
            Column("dur_ns", "Time", "ns", bar=True),
            Column("next", "Ended by", "place"),
            Column("operator", "Operator", "code"),
            _START,
            Column("kind", "Kind", "code", detail="verbose"),
        )
        rows = _all(gaps, gap_columns, _gap)
        body.append(Table("gaps", gap_columns, rows, first_rows=8, opens="timeline", color="kind"))
    note = "Every nanosecond of every gap has one cause; a click shows a gap."
    return Section("idle", "Why the device was idle", "page", tuple(body), note)


def _cause(row: Row) -> Row:
    cause = str(row.get("cause"))
    return {**row, "label": idle_label(cause), "kind": f"idle_{cause}"}


def _gap(row: Row) -> Row:
    following = row.get("next_name")
    return {**_cause(row), "next": Place(kernel=following) if following else None}


def _syncs(analysis: Analysis) -> Section | None:
    count = analysis.get("sync_count")
    if not count:
        return None
    columns = (
        Column("name", "Call", "code"),
        Column("dur_ns", "Blocked", "ns", bar=True),
        _PLACE,
        Column("within", "In", "code"),
        _START,
    )
    calls = "call" if count == 1 else "calls"
    total = duration(analysis.get("sync_ns") or 0)
    note = f"{count:,} {calls} made the host wait for the device, {total} together."
    rows = _all(_rows(analysis, "syncs"), columns, _sync)
    table = Table("syncs", columns, rows, first_rows=8, opens="timeline")
    return Section("syncs", "Host syncs", "page", (table,), note)


def _sync(row: Row) -> Row:
    within = row.get("operator") or row.get("region")
    return {**row, "dur_ns": row.get("blocked_ns"), "within": within}


_WAITS_FOR = {"device": "the whole device", "copy": "its own copy", "other": "something else"}


def _sync_kinds(analysis: Analysis) -> Section | None:
    kinds = _rows(analysis, "sync_kinds")
    if not kinds:
        return None
    columns = (
        Column("label", "Waits for", "text"),
        Column("count", "Calls", "count"),
        _TOTAL,
        _PLACE,
        Column("cheaper", "If it has to stay", "text"),
    )
    note = "Waiting for the whole device holds up every stream; what has to stay can wait for less."
    table = Table("sync_kinds", columns, _all(kinds, columns, _waits_for))
    return Section("sync_kinds", "What the syncs wait for", "page", (table,), note)


def _waits_for(row: Row) -> Row:
    return {**row, "label": _WAITS_FOR.get(row["name"], f"one {row['name']}")}


def _copies(analysis: Analysis) -> Section | None:
    copies = _rows(analysis, "copies")
    if not copies:
        return None
    columns = (
        Column("kind", "Kind", "text"),
        Column("count", "Copies", "count"),
        Column("memory", "Host memory", "text"),
        Column("bytes", "Bytes", "bytes"),
        _TOTAL,
        Column("bytes_per_s", "Rate", "bytes_per_s"),
    )
    note = (
        "By direction and kind of host memory: pinned memory copies faster and without making the "
        "host wait."
    )
    table = Table("copies", columns, _all(copies, columns))
    return Section("copies", "Copies", "page", (table,), note)


def _rows(analysis: Analysis, key: str) -> Sequence[Row]:
    rows = analysis.get(key)
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []


def _step_times(analysis: Analysis) -> list[int]:
    return [row.get("dur_ns") or 0 for row in _rows(analysis, "steps")]


def _all(
    rows: Sequence[Row], columns: Sequence[Column], change: Callable[[Row], Row] = lambda row: row
) -> tuple[Mapping[str, Value], ...]:
    return tuple(_cells(change(row), columns) for row in rows[:MAX_DEVICE_ROWS])


def _cells(row: Row, columns: Sequence[Column]) -> Mapping[str, Value]:
    return {
        column.key: value
        for column in columns
        if (value := _value(row.get(column.key))) is not None
    }


def _value(value: Any) -> Value:
    if isinstance(value, Mapping):
        line = value.get("line")
        return Place(
            file=str(value.get("file")),
            line=line if isinstance(line, int) else None,
            function=value.get("function") or None,
        )
    if isinstance(value, int | float | str | bool | Place):
        return value
    return None
