"""The long tables of a trace: operators, kernels, modules and source lines."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from lightning_gpuprof.analysis.trace_tables import KernelRow, OperatorRow, PlaceRow, TraceAnalysis
from lightning_gpuprof.report.document import Column, Section, Table, Value
from lightning_gpuprof.report.labels import event_label
from lightning_gpuprof.report.trace.device import kernel_place, place

MAX_ROWS = 2_000
"""Tables are sorted and searched in the page; a row is about 150 bytes."""
FIRST_ROWS = 20
NARROW = (
    "name", "count", "device_self_ns", "self_ns", "total_ns", "frac",
    "occupancy_frac", "blocks_per_sm", "warps_per_sm",
)  # fmt: skip
"""The columns for which a terminal has room."""
_COLUMNS = (
    Column("category", "Kind", "text"),
    Column("where", "Line", "place", keep_end=True),
    Column("step_ns", "Per step", "ns", note="the column sorted by, over the profiled steps"),
    Column("step_frac", "% of step", "frac", note="of the profiled step"),
    Column("count", "Calls", "count"),
    Column("self_ns", "Host self", "ns", note="host time without the operators that it called"),
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
_MORE_OF_OPERATORS = (
    Column("loading_count", "Of a batch", "count", detail="verbose"),
    Column("repeated_count", "Repeated", "count", detail="verbose"),
    Column("repeated_ns", "In them", "ns", detail="verbose"),
    Column("backward_count", "In backward", "count", detail="verbose"),
    Column("backward_ns", "Backward", "ns", detail="verbose"),
    Column("update_count", "In the update", "count", detail="verbose"),
    Column("update_self_ns", "Update self", "ns", detail="verbose"),
)
Row = Mapping[str, Value]


@dataclass(frozen=True)
class Layout:
    """How a table is laid out: which columns are on the page, and how many rows at first."""

    first_rows: int = FIRST_ROWS
    columns: Collection[str] | None = None
    """None for all columns that any row fills; other columns are shown in a verbose report."""


WIDE = Layout()
"""The layout of a page with room for all columns."""


def operator_sections(
    analysis: TraceAnalysis,
    allocated_bytes: Mapping[str, int] | None = None,
    layout: Layout = WIDE,
) -> Iterator[Section]:
    """Yield operators, kernels, modules and source lines, largest first.

    Args:
        analysis: The analysis of a trace.
        allocated_bytes: By operator, memory allocated while it was the innermost one.
        layout: Which columns and rows are shown at first.
    """
    lister = _Lister(analysis, layout)
    if analysis.operators:
        on_device = any(operator.device_self_ns for operator in analysis.operators)
        of = "device_self_ns" if on_device else "self_ns"
        rows = [
            {**_operator(operator), "allocated_bytes": (allocated_bytes or {}).get(operator.name)}
            for operator in analysis.operators
        ]
        note = (
            f"{'Device' if on_device else 'Host'} self time per step: outside the operators that "
            "an operator calls."
        )
        yield lister.section("operators", "Operators", note, rows, of)
    if analysis.kernels:
        note = "Kernels that ran on the device, by the device's clock."
        yield lister.section("kernels", "Kernels", note, map(_kernel, analysis.kernels))
    if analysis.modules:
        note = "Device time of the kernels that were launched inside each module."
        yield lister.section("modules", "Modules", note, map(_place, analysis.modules))
    if analysis.lines:
        note = "Device time of the kernels that were launched from each line of your own code."
        yield lister.section("lines", "Source lines", note, map(_place, analysis.lines))


def category_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield the time of kernels by kind."""
    if not analysis.categories:
        return
    columns = (
        Column("label", "Kind", "text"),
        Column("count", "Calls", "count"),
        Column("frac", "Share", "frac"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("kind", "Kind of event", "code", detail="verbose"),
    )
    rows: tuple[Row, ...] = tuple(
        {
            "label": event_label(f"kernel_{row.category}"),
            "count": row.count,
            "frac": row.frac,
            "total_ns": row.total_ns,
            "kind": f"kernel_{row.category}",
        }
        for row in analysis.categories
    )
    table = Table("categories", columns, rows, color="kind")
    yield Section("categories", "Kernels by kind", "page", (table,))


class _Lister:
    def __init__(self, analysis: TraceAnalysis, layout: Layout) -> None:
        self._steps_ns = [step.dur_ns for step in analysis.steps]
        self._layout = layout

    def section(
        self, id: str, title: str, note: str, rows: "Sequence[Row] | map[Row]", of: str = "total_ns"
    ) -> Section:
        """Return a long table; `of` names the time that is also given per profiled step."""
        whole_ns = sum(self._steps_ns)
        sort = "step_ns" if whole_ns else of
        listed = [self._per_step(row, of, whole_ns) for row in rows]
        listed.sort(key=lambda row: -_number(row.get(of)))
        name = Column("name", "Name", "place" if id == "kernels" else "code")
        columns = tuple(self._column(column, id, sort) for column in self._columns(name, id))
        table = Table(
            id=id,
            columns=columns,
            rows=tuple(listed[:MAX_ROWS]),
            first_rows=self._layout.first_rows,
            sort=sort,
            searchable=True,
        )
        return Section(id, title, "page", (table,), note)

    @staticmethod
    def _columns(name: Column, id: str) -> tuple[Column, ...]:
        return (name, *_COLUMNS, *(_MORE_OF_OPERATORS if id == "operators" else ()))

    def _column(self, column: Column, id: str, sort: str) -> Column:
        shown = self._layout.columns
        label = column.label
        if column.key == "total_ns" and id == "operators":
            label = "Host total"
        hidden = shown is not None and column.key not in shown
        return msgspec.structs.replace(
            column,
            label=label,
            bar=column.key == sort,
            detail="verbose" if hidden else column.detail,
        )

    def _per_step(self, row: Row, of: str, whole_ns: int) -> Row:
        if not whole_ns or row.get(of) is None:
            return row
        time_ns = _number(row.get(of))
        return {**row, "step_ns": time_ns / len(self._steps_ns), "step_frac": time_ns / whole_ns}


def _number(value: Value) -> float:
    return value if isinstance(value, int | float) else 0.0


def _operator(row: OperatorRow) -> Row:
    return msgspec.structs.asdict(row)


def _kernel(row: KernelRow) -> Row:
    return {**msgspec.structs.asdict(row), "name": kernel_place(row.name)}


def _place(row: PlaceRow) -> Row:
    return {
        "name": row.name,
        "where": place(row.where),
        "count": row.count,
        "total_ns": row.total_ns,
    }
