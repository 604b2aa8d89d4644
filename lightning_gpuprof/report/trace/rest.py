"""Further sections of a trace: critical path, calls, steps, ranges, launches, roofs and faults."""

from collections.abc import Iterator

import msgspec

from lightning_gpuprof.analysis.trace_tables import (
    CriticalPathSummary,
    OrderStatistics,
    TraceAnalysis,
)
from lightning_gpuprof.report.document import Column, Detail, Figure, Figures, Section, Table, Value

Row = dict[str, Value]
PATH_KINDS = {
    "host": "the host",
    "launch": "a launch",
    "device": "the device",
    "queue": "the queue of the device",
    "sync": "a host sync",
}
"""Where the parts of the critical path ran, by their kind."""
STEP_PARTS = ("busy_ns", "idle_ns", "compute_ns", "exposed_comm_ns", "exposed_copy_ns")


def metric_sections(analysis: TraceAnalysis, first_rows: int) -> Iterator[Section]:
    """Yield the shares of the device's peaks that were sampled on the device."""
    if not analysis.gpu_metrics:
        return
    columns = (
        Column("name", "Metric", "code"),
        Column("device", "Device", "count"),
        Column("count", "Samples", "count"),
        Column("mean_frac", "Mean", "frac", bar=True),
        Column("max_frac", "Highest", "frac"),
    )
    rows: tuple[Row, ...] = tuple(
        {
            "name": row.name,
            "device": row.device,
            "count": row.count,
            "mean_frac": row.mean_frac,
            "max_frac": row.max_frac,
        }
        for row in analysis.gpu_metrics
    )
    table = Table("gpu_metrics", columns, rows, first_rows=first_rows)
    yield Section("gpu_metrics", "Sampled on the device", "page", (table,))


def path_sections(analysis: TraceAnalysis, first_rows: int) -> Iterator[Section]:
    """Yield the critical path by part, longest first."""
    path = analysis.critical_path
    if path is None or not path.parts:
        return
    columns = (
        Column("name", "Part", "code"),
        Column("kind", "On", "text"),
        Column("count", "Times", "count"),
        Column("frac", "Share", "frac"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("detail", "Detail", "text", detail="verbose"),
    )
    rows: tuple[Row, ...] = tuple(
        {
            "name": part.name,
            "kind": PATH_KINDS.get(part.kind, part.kind),
            "count": part.count,
            "frac": part.frac,
            "total_ns": part.total_ns,
            "detail": part.detail or None,
        }
        for part in path.parts
    )
    table = Table("critical_path", columns, rows, first_rows=first_rows)
    note = "the work that the end of the trace waits for: a shorter part makes the trace shorter"
    yield Section("critical_path", "Critical path", "page", (table, _path_figures(path)), note)


def _path_figures(path: CriticalPathSummary) -> Figures:
    kinds = (
        Figure(f"path_{kind}_ns", f"on {PATH_KINDS.get(kind, kind)}", ns, "ns")
        for kind, ns in path.kind_ns.items()
        if ns
    )
    remaining = Figure("path_rest_ns", "in parts that are not listed", path.rest_ns, "ns")
    return Figures((Figure("path_ns", "the whole path", path.span_ns, "ns"), *kinds, remaining))


def call_sections(analysis: TraceAnalysis, first_rows: int) -> Iterator[Section]:
    """Yield runtime calls and marked steps, or the host's ranges if no steps are marked."""
    if analysis.launches is not None and analysis.launches.calls:
        yield _calls(analysis, first_rows)
    if analysis.steps:
        yield _steps(analysis, first_rows)
    if analysis.ranges:
        yield _ranges(analysis, first_rows)


def _calls(analysis: TraceAnalysis, first_rows: int) -> Section:
    columns = (
        Column("name", "Call", "code"),
        Column("count", "Calls", "count"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("mean_ns", "Mean", "ns"),
        Column("max_ns", "Max", "ns"),
        Column("kind", "Kind", "text", detail="verbose"),
    )
    calls = analysis.launches.calls if analysis.launches is not None else ()
    rows: tuple[Row, ...] = tuple(
        {
            "name": call.name,
            "count": call.count,
            "total_ns": call.total_ns,
            "mean_ns": call.mean_ns,
            "max_ns": call.max_ns,
            "kind": call.kind,
        }
        for call in calls
    )
    table = Table("calls", columns, rows, first_rows=first_rows)
    return Section("calls", "Runtime calls", "page", (table,))


def _steps(analysis: TraceAnalysis, first_rows: int) -> Section:
    columns: tuple[Column, ...] = (
        Column("name", "Step", "code"),
        Column("dur_ns", "Time", "ns", bar=True),
        Column("busy_ns", "Device busy", "ns"),
        Column("idle_ns", "Device idle", "ns"),
        Column("compute_ns", "Compute", "ns", detail="verbose"),
        Column("exposed_comm_ns", "Communication not hidden", "ns", detail="verbose"),
        Column("exposed_copy_ns", "Copies not hidden", "ns", detail="verbose"),
        Column("distorted", "Distorted", "flag", detail="verbose"),
        Column("start_ns", "Starts at", "ns", detail="verbose"),
    )
    rows: list[Row] = []
    for step in analysis.steps:
        split = {} if step.gpu is None else msgspec.structs.asdict(step.gpu)
        row: Row = {
            "name": step.name,
            "dur_ns": step.dur_ns,
            "distorted": step.distorted,
            "start_ns": step.start_ns,
            **({"rank": step.rank} if step.rank else {}),
        }
        rows.append(row | {key: split[key] for key in STEP_PARTS if key in split})
    if any(step.rank for step in analysis.steps):
        columns = (Column("rank", "Rank", "text"), *columns)
    table = Table("steps", columns, tuple(rows), first_rows=first_rows)
    return Section("steps", "Steps", "page", (table,))


def _ranges(analysis: TraceAnalysis, first_rows: int) -> Section:
    columns = (
        Column("name", "Range", "code"),
        Column("count", "Calls", "count"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("min_ns", "Min", "ns"),
        Column("max_ns", "Max", "ns"),
        Column("category", "Kind", "text", detail="verbose"),
    )
    rows: tuple[Row, ...] = tuple(
        {
            "name": row.name,
            "count": row.count,
            "total_ns": row.total_ns,
            "min_ns": row.min_ns,
            "max_ns": row.max_ns,
            "category": row.category,
        }
        for row in analysis.ranges
    )
    table = Table("ranges", columns, rows, first_rows=first_rows)
    detail: Detail = "verbose" if analysis.steps else "page"
    return Section("ranges", "Host ranges", detail, (table,))


def launch_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield how work was launched, in figures."""
    launches = analysis.launches
    if launches is None or not launches.count:
        return
    figures = (
        Figure("launch_count", "launches", launches.count, "count"),
        Figure("launched_kernels_count", "kernels", launches.kernel_count, "count"),
        Figure("graph_count", "launches of graphs", launches.graph_count, "count"),
        Figure(
            "graphed_thin_count",
            "short kernels in graphs",
            launches.graphed_thin_count,
            "count",
            "below 10 µs",
        ),
        Figure("launches_per_step_count", "launches per step", launches.launches_per_step, "count"),
        Figure("step_kernels_count", "kernels per step", launches.kernels_per_step, "count"),
        *_order_figures("launch", "launch call", launches.overhead),
        *_order_figures("launch_to_start", "launch to start", launches.delay),
    )
    body: tuple[Figures | Table, ...] = (Figures(figures),)
    depth = launches.queue_depth
    if depth is not None:
        columns = (Column("start_ns", "At", "ns"), Column("depth", "Waiting", "count"))
        points = tuple({"start_ns": at_ns, "depth": waiting} for at_ns, waiting in depth.series)
        waiting_figures = (
            Figure("queue_depth_count", "waiting to start, mean", depth.mean, "count"),
            Figure("max_queue_depth_count", "waiting to start, at most", depth.max, "count"),
        )
        table = Table("queue_depth", columns, points, title="Launched and not yet started")
        body = (*body, Figures(waiting_figures), table)
    yield Section("launches", "Launches", "verbose", body)


def _order_figures(key: str, label: str, order: OrderStatistics | None) -> Iterator[Figure]:
    if order is None:
        return
    yield Figure(f"{key}_min_ns", f"{label}, least", order.min_ns, "ns")
    yield Figure(f"{key}_median_ns", f"{label}, median", order.median_ns, "ns")
    yield Figure(f"{key}_p90_ns", f"{label}, 90th percentile", order.p90_ns, "ns")
    yield Figure(f"{key}_max_ns", f"{label}, most", order.max_ns, "ns")
    yield Figure(f"{key}_mean_ns", f"{label}, mean", order.mean_ns, "ns")


def quality_section(analysis: TraceAnalysis) -> Section:
    """Return how many events are missing, unmatched or impossible in the trace."""
    quality = analysis.quality
    figures = (
        Figure("device_events_count", "device events", quality.device_events, "count"),
        Figure("launched_count", "kernel and graph launches", quality.launch_count, "count"),
        Figure("lost_kernels_count", "launches without an event", quality.lost_kernels, "count"),
        Figure("orphan_kernels_count", "events without a launch", quality.orphan_kernels, "count"),
        Figure(
            "kernels_before_launch_count",
            "events before their launch",
            quality.kernels_before_launch,
            "count",
        ),
        Figure(
            "impossible_durations_count",
            "events of impossible length",
            quality.impossible_durations,
            "count",
        ),
        Figure(
            "impossible_starts_count", "impossible start times", quality.impossible_starts, "count"
        ),
        Figure(
            "behind_all_steps_count",
            "events of steps, all after the last step",
            quality.behind_all_steps,
            "count",
        ),
    )
    return Section("quality", "The trace itself", "verbose", (Figures(figures),))


def roofline_sections(analysis: TraceAnalysis) -> Iterator[Section]:
    """Yield how close operators come to the device's peak rates."""
    roofs = analysis.roofs
    if roofs is None:
        return
    figures = [
        Figure("roofs_device", "device", roofs.device, "text", roofs.reason or roofs.url),
        Figure("peak_bytes_per_s", "memory, peak", roofs.peak_bytes_per_s, "bytes_per_s"),
        *(
            Figure(f"peak_{dtype}_flop_per_s", f"{dtype}, peak of FLOP", peak, "per_s")
            for dtype, peak in roofs.peak_flop_per_s.items()
        ),
        *(
            Figure(f"{dtype}_flop_count", f"{dtype}, FLOP in all", count, "count")
            for dtype, count in roofs.flop_count.items()
        ),
        Figure("roofline_ns", "kernels of these operators", roofs.total_ns, "ns"),
        Figure("kernel_frac", "their share of kernel time", roofs.kernel_frac, "frac"),
        Figure("hfu_frac", "at the matrix units' peak", roofs.hfu, "frac", "of the span"),
    ]
    note = " ".join(roofs.notes) or None
    body: tuple[Figures | Table, ...] = (Figures(tuple(figures)),)
    if analysis.roofline:
        body = (_roofline(analysis), *body)
    yield Section("roofline", "Roofline", "verbose", body, note)


def _roofline(analysis: TraceAnalysis) -> Table:
    columns = (
        Column("name", "Operator", "code"),
        Column("total_ns", "Time", "ns", bar=True),
        Column("count", "Calls", "count"),
        Column("dtype", "Type", "code"),
        Column("dims", "Shapes", "code"),
        Column("bound", "Lower roof", "text"),
        Column("roof_frac", "Of its roof", "frac"),
        Column("flop_per_byte", "FLOP per byte", "number"),
        Column("flop_count", "FLOP", "count", note="of one call"),
        Column("num_bytes", "Moved", "bytes", note="of one call"),
        Column("flop_per_s", "FLOP/s", "per_s"),
        Column("bytes_per_s", "Rate", "bytes_per_s"),
        Column("peak_flop_per_s", "Peak FLOP/s", "per_s"),
        Column("peak_bytes_per_s", "Peak rate", "bytes_per_s"),
        Column("ridge_flop_per_byte", "Ridge", "number"),
        Column("kernel_count", "Kernels", "count"),
        Column("category", "Kind", "text"),
        Column("anomaly", "Why not", "text"),
    )
    rows: tuple[Row, ...] = tuple(
        {
            "name": row.name,
            "total_ns": row.total_ns,
            "count": row.count,
            "dtype": row.dtype or None,
            "dims": ", ".join(map(str, row.dims)) or None,
            "bound": row.bound,
            "roof_frac": row.roof_frac,
            "flop_per_byte": row.flop_per_byte,
            "flop_count": row.flop_count,
            "num_bytes": row.num_bytes,
            "flop_per_s": row.flop_per_s,
            "bytes_per_s": row.bytes_per_s,
            "peak_flop_per_s": row.peak_flop_per_s,
            "peak_bytes_per_s": row.peak_bytes_per_s,
            "ridge_flop_per_byte": row.ridge_flop_per_byte,
            "kernel_count": row.kernel_count,
            "category": row.category or None,
            "anomaly": row.anomaly,
        }
        for row in analysis.roofline
    )
    return Table("roofline", columns, rows)
