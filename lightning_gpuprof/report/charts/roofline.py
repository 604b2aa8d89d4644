"""A cycle's operators compared with the peak rates of their device, and a conclusion."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from lightning_gpuprof.analysis.trace_tables import RooflineRow, Roofs, TraceAnalysis
from lightning_gpuprof.report.charts.cycles import CycleState
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.traces import absent_state, analysed_cycle
from lightning_gpuprof.report.document import Chart, Column, Part, Section, Table, Text, Value
from lightning_gpuprof.units import percent

MAX_ROWS = 500
MOST_TYPES = 2
"""How many types the label of a roof names."""
NEAR = 0.3
"""An operator below this share of its roof is not called bound by it: good kernels reach half of a
data sheet's peak and more, so that something else holds it back. Our judgement."""
Limit = Literal["compute", "memory", "latency", "unknown"]
_CONCLUSIONS: Mapping[Limit, str] = {
    "compute": "bound by compute: try TF32 or bf16",
    "memory": "bound by memory: fusing and smaller types make it faster",
    "latency": "near neither roof, below 30% of both: fewer and larger operators bring it nearer",
}


_BOUND_BY: Mapping[Limit, str] = {
    "compute": "compute",
    "memory": "memory",
    "latency": "neither roof",
}


class RooflinePoint(Struct, frozen=True):
    """An operator with one shape: its FLOP/s over its FLOPs per byte."""

    name: str
    shapes: str
    total_ns: float
    flop_per_byte: float
    flop_per_s: float
    limit: Limit


class Roof(Struct, frozen=True):
    """A peak with which operators are compared; matrix units have a peak of their own."""

    label: str
    """The types that have it, and FLOP/s."""
    bandwidth: str
    """Bytes per second of the device's memory."""
    flop_per_s: float
    bytes_per_s: float


class RooflinePayload(Struct, frozen=True):
    """One cycle's operators, with the roofs of their device that are known."""

    trace: str | None
    state: CycleState
    sections: tuple[Section, ...] = ()
    points: tuple[RooflinePoint, ...] = ()
    roofs: tuple[Roof, ...] = ()
    data_sheet: str | None = None
    """The source of the device's peaks."""
    nothing: str | None = None
    """Why no operator could be placed."""
    error: str | None = None


def roofline_view(run: LoadedRun, query: Query) -> RooflinePayload:
    """Return one cycle's operators, with the roofs of their device that are known."""
    trace, analysis = analysed_cycle(run, query)
    if analysis is None:
        return RooflinePayload(trace, absent_state(trace))
    rows, roofs = analysis.roofline[:MAX_ROWS], analysis.roofs
    if not rows or roofs is None:
        return RooflinePayload(trace, "analysed", nothing=_nothing(analysis))
    points = tuple(
        RooflinePoint(
            name=row.name,
            shapes=_shapes(row),
            total_ns=row.total_ns,
            flop_per_byte=row.flop_per_byte,
            flop_per_s=row.flop_per_s,
            limit=limit(row),
        )
        for row in rows
        if row.flop_per_s and row.flop_per_byte and not row.anomaly
    )
    return RooflinePayload(
        trace,
        "analysed",
        sections=_sections(rows, roofs, points),
        points=points,
        roofs=tuple(_roofs(rows)),
        data_sheet=_web_page(roofs.url),
    )


def limit(row: RooflineRow) -> Limit:
    """Return what limits an operator."""
    if row.roof_frac is None or row.bound is None:
        return "unknown"
    return "latency" if row.roof_frac < NEAR else row.bound


def conclusion(rows: Sequence[RooflineRow]) -> str | None:
    """Say what limits the operators whose roofs are known for most of their time."""
    time_ns = Counter[Limit]()
    for row in rows:
        time_ns[limit(row)] += row.total_ns
    del time_ns["unknown"]
    if not time_ns.total():
        return None
    ((most, most_ns),) = time_ns.most_common(1)
    return f"{percent(most_ns / time_ns.total())} of the placed time is {_CONCLUSIONS[most]}"


def _sections(
    rows: Sequence[RooflineRow],
    roofs: Roofs,
    points: Sequence[RooflinePoint],
) -> tuple[Section, ...]:
    notes = roofs.notes
    body: tuple[Part, ...] = (Chart("roofline", "FLOP/s over FLOPs per byte"),) if points else ()
    if notes:
        body += (Text(notes, "note"),)
    return (
        Section("roofline", conclusion(rows) or "Roofline", "page", body, _source(roofs)),
        Section(
            "roofline_operators",
            "Operators on the roofline",
            "page",
            (_table(rows),),
            "Longest kernel time first.",
        ),
    )


def _source(roofs: Roofs) -> str:
    placed, used, reason = roofs.kernel_frac, roofs.hfu, roofs.reason
    sentences = f"{percent(placed)} of kernel time is placed. " if placed else ""
    if not roofs.device:
        return sentences + (reason or "The device's peaks are not known: points without roofs.")
    if used:
        sentences += f"Its matrix operators' FLOPs would take {percent(used)} of the time at peak. "
    more = f"; {reason}" if reason else ""
    return f"{sentences}Peaks of {roofs.device} from its data sheet{more}."


def _nothing(analysis: TraceAnalysis) -> str:
    if analysis.device is None:
        return "This trace holds no device events: a roofline needs kernels."
    if analysis.roofs is not None and analysis.roofs.reason:
        return analysis.roofs.reason
    return (
        "No operator could be placed on the roofline: that needs shapes (record_shapes=True) and "
        "kernels."
    )


def _web_page(url: object) -> str | None:
    """Return an address from a trace file, which may be forged, if it is that of a web page."""
    return url if isinstance(url, str) and url.startswith("https://") else None


_COLUMNS = (
    Column("name", "Operator", "code"),
    Column("shapes", "Shapes", "code"),
    Column("dtype", "Type", "text"),
    Column("count", "Calls", "count"),
    Column("total_ns", "Kernel time", "ns", bar=True),
    Column("flop_per_byte", "FLOP/byte", "number"),
    Column("tflop_per_s", "TFLOP/s", "number"),
    Column("gb_per_s", "GB/s", "number"),
    Column("limit", "Bound by", "text"),
    Column("roof_frac", "Of its roof", "frac"),
)


def _table(rows: Sequence[RooflineRow]) -> Table:
    return Table(
        "roofline",
        _COLUMNS,
        tuple(_cells(row) for row in rows),
        first_rows=20,
        sort="total_ns",
        searchable=True,
    )


def _cells(row: RooflineRow) -> dict[str, Value]:
    bound = limit(row)
    return {
        "name": row.name,
        "dtype": row.dtype,
        "count": row.count,
        "total_ns": row.total_ns,
        "shapes": _shapes(row),
        "flop_per_byte": row.flop_per_byte,
        "tflop_per_s": row.flop_per_s / 1e12 if row.flop_per_s is not None else None,
        "gb_per_s": row.bytes_per_s / 1e9 if row.bytes_per_s is not None else None,
        "limit": "see note" if row.anomaly else _BOUND_BY.get(bound),
        "roof_frac": row.roof_frac,
    }


def _shapes(row: RooflineRow) -> str:
    return json.dumps(row.dims)


def _first(types: Sequence[str]) -> str:
    more = ", ..." if len(types) > MOST_TYPES else ""
    return ", ".join(types[:MOST_TYPES]) + more


def _roofs(rows: Sequence[RooflineRow]) -> list[Roof]:
    peaks: dict[float, tuple[float, list[str]]] = {}
    for row in rows:
        flop_per_s, bytes_per_s = row.peak_flop_per_s, row.peak_bytes_per_s
        if flop_per_s and bytes_per_s:
            _, types = peaks.setdefault(flop_per_s, (bytes_per_s, []))
            if (dtype := row.dtype) not in types:
                types.append(dtype)
    return [
        Roof(
            f"{_first(types)}: {flops / 1e12:,.4g} TFLOP/s",
            f"{bytes_per_s / 1e12:,.3g} TB/s",
            flops,
            bytes_per_s,
        )
        for flops, (bytes_per_s, types) in peaks.items()
    ]
