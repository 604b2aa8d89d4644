"""Lines, modules and workers in which a step's time is spent; graph breaks and host syncs."""

from dataclasses import asdict

from lightning_gpuprof.analysis.run.line_samples import SampledLine, group_by_line
from lightning_gpuprof.analysis.run.line_times import line_times, unlisted_ns
from lightning_gpuprof.analysis.run.module_times import module_times
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import made_in_ns, worker_line_times
from lightning_gpuprof.records.lines import CodePlace, LineCount
from lightning_gpuprof.records.schema import SyncSite
from lightning_gpuprof.report.document import (
    Column,
    Figure,
    Figures,
    Interval,
    Place,
    Section,
    Table,
    Text,
    Value,
)

MOST_LINES = 20
FIRST_LINES = 5
MIN_LINE_FRAC = 0.005
"""Lines below this share of the step are not shown at first."""
MIN_WORKER_FRAC = 0.02
"""Lines below this share of a worker's work are not shown at first."""
MOST_EVENTS = 10
AGAIN = "recompilation"


def lines_section(run: RunResults) -> Section | None:
    """Return the lines of the program that take most of a step; None if none were sampled."""
    lines = line_times(run)[:MOST_LINES]
    rows: list[dict[str, Value]] = [
        {
            "place": place_of_line(line),
            "phase": Place(phase=line.phase.value),
            "frac": Interval(line.low_frac, line.high_frac),
            "time_ns": Interval(line.low_ns, line.high_ns),
            "mean_ns": line.mean_ns,
            "callee": line.callee,
            "count": line.count,
        }
        for line in lines
    ]
    shown = sum(line.frac >= MIN_LINE_FRAC for line in lines)
    if not shown:
        return None
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("phase", "In", "place"),
        Column("frac", "Share", "frac"),
        Column(
            "time_ns",
            "Per step",
            "ns",
            note="holds the true mean 19 times in 20, as far as sampling errors go",
        ),
        Column("mean_ns", "Mean", "ns", detail="verbose"),
        Column("callee", "Mostly in", "code", detail="verbose"),
        Column("count", "Samples", "count", detail="verbose"),
    )
    table = Table(
        "lines",
        columns,
        tuple(rows),
        first_rows=min(FIRST_LINES, shown),
        color="phase",
    )
    parts: list[Table | Figures] = [table]
    if (rest_ns := unlisted_ns(run)) is not None:
        parts.append(Figures((Figure("unlisted_ns", "any other line at most", rest_ns, "ns"),)))
    note = "sampled on the host in the first seconds"
    return Section("lines", "At which lines", "page", tuple(parts), note=note)


def outside_lines_section(run: RunResults) -> Section | None:
    """Return the lines that were sampled between epochs; None if there were few samples."""
    sampled = run.facts.outside_lines
    lines = [] if sampled is None else group_by_line(sampled.lines)
    if sampled is None or not lines:
        return None
    lines.sort(key=lambda line: -line.count)
    rows: list[dict[str, Value]] = [
        {
            "place": place_of_line(line.most),
            "part": line.most.part,
            "frac": line.count / sampled.whole,
            "callee": line.most.callee,
            "count": line.count,
        }
        for line in lines[:MOST_LINES]
    ]
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("part", "In", "code"),
        Column("frac", "Share", "frac", note="of the samples between epochs"),
        Column("callee", "Mostly in", "code", detail="verbose"),
        Column("count", "Samples", "count", detail="verbose"),
    )
    table = Table("outside_lines", columns, tuple(rows), first_rows=FIRST_LINES)
    note = "where the training thread was sampled between epochs"
    return Section("outside_lines", "Lines between epochs", "page", (table,), note=note)


def workers_section(run: RunResults) -> Section | None:
    """Return the lines at which worker processes were sampled; None if there were none."""
    workers = run.loader.workers
    lines = worker_line_times(run)[:MOST_LINES]
    shown = sum(line.frac >= MIN_WORKER_FRAC for line in lines)
    if workers is None or not shown:
        return None
    rows: list[dict[str, Value]] = [
        {
            "place": place_of_line(line),
            "frac": Interval(line.low_frac, line.high_frac),
            "batch_ns": line.batch_ns,
            "callee": line.callee,
            "count": line.count,
        }
        for line in lines
    ]
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("frac", "Share", "frac"),
        Column(
            "batch_ns",
            "Per batch",
            "ns",
            note="the line's share of the time that one worker takes to make a batch",
        ),
        Column("callee", "Mostly in", "code", detail="verbose"),
        Column("count", "Samples", "count", detail="verbose"),
    )
    table = Table("workers", columns, tuple(rows), first_rows=min(FIRST_LINES, shown))
    figures = (
        Figure("samples_count", "samples", workers.whole, "count"),
        Figure("processes_count", "worker processes", workers.processes, "count"),
        Figure("waiting_frac", "waiting for work", workers.waiting_frac, "frac"),
        Figure("batch_ns", "a worker's time per batch", made_in_ns(run), "ns"),
        Figure("start_ns", "start of the first worker", workers.start_ns, "ns"),
        Figure("init_ns", "worker_init_fn", workers.init_ns, "ns"),
    )
    measured = Figures(tuple(figure for figure in figures if figure.value is not None))
    note = "where worker processes were sampled while they made batches"
    return Section("workers", "In the loader's workers", "page", (table, measured), note=note)


def modules_section(run: RunResults) -> Section | None:
    """Return the modules and regions that the user named; None if there are none."""
    modules = module_times(run)
    if not modules:
        return None
    rows: list[dict[str, Value]] = [
        {
            key: value
            for key, value in asdict(module).items()
            if key != "advice" and value is not None
        }
        for module in modules
    ]
    columns = (
        Column("name", "Module", "code"),
        Column("calls_per_step", "Calls per step", "count"),
        Column("forward_ns", "Forward", "ns"),
        Column("backward_ns", "Backward", "ns"),
        Column("device_forward_ns", "Device, forward", "ns"),
        Column("device_backward_ns", "Device, backward", "ns"),
    )
    parts: list[Table | Text] = [Table("modules", columns, tuple(rows))]
    loops: list[dict[str, Value]] = [
        {"name": module.name, "advice": module.advice} for module in modules if module.advice
    ]
    if loops:
        loop_columns = (Column("name", "Module", "code"), Column("advice", "Advice", "text"))
        parts.append(Table("loops", loop_columns, tuple(loops), title="Modules called in a loop"))
    return Section("modules", "Modules", "page", tuple(parts), note="own time, mean per step")


def compile_section(run: RunResults) -> Section | None:
    """Return graph breaks and recompilations of torch.compile; None if there were none."""
    compiled = run.compiled
    if not compiled.breaks and not compiled.reasons:
        return None
    rows: list[dict[str, Value]] = [
        {
            "what": f"runs uncompiled from step {reason.limit_step:,} on"
            if reason.limit
            else AGAIN,
            "place": place_of_line(reason.place),
            "reason": reason.reason,
            "count": reason.count,
            "took_ns": reason.took_ns or None,
        }
        for reason in compiled.reasons
    ]
    rows += [
        {
            "what": event.what,
            "place": place_of_line(event.place),
            "reason": event.reason,
            "hint": event.hint or None,
        }
        for event in compiled.breaks
    ]
    columns = (
        Column("what", "What", "text"),
        Column("place", "Line", "place", keep_end=True),
        Column("reason", "Reason", "text"),
        Column("count", "Times", "count"),
        Column("took_ns", "Together", "ns"),
        Column("hint", "Hint", "text", detail="verbose"),
    )
    table = Table("compile_events", columns, tuple(rows), first_rows=MOST_EVENTS)
    note = "recompilations and graph breaks, with torch's reason"
    return Section("compile", "torch.compile", "page", (table,), note=note)


def sync_sites_section(run: RunResults) -> Section | None:
    """Return the lines at which an inspection found the host waiting; None if there are none."""
    sites = run.facts.sync_sites
    if not sites:
        return None
    rows: list[dict[str, Value]] = [
        {
            "place": place_of_line(site),
            "operation": site.operation,
            "owner": site.owner,
            "count": site.count,
            "steps_count": site.steps_watched,
            "blocked_ns": site.blocked_ns,
            "phase": None if site.phase is None else Place(phase=site.phase),
            "would_sync": site.would_sync,
        }
        for site in sites
    ]
    columns = (
        Column("place", "Line", "place", keep_end=True),
        Column("operation", "Operation", "code"),
        Column("owner", "Whose", "text"),
        Column("count", "Times", "count"),
        Column("steps_count", "In steps", "count"),
        Column("blocked_ns", "Blocked", "ns"),
        Column("phase", "In", "place"),
        Column("would_sync", "Only on a GPU", "flag"),
    )
    table = Table("sync_sites", columns, tuple(rows))
    note = "lines that make the host wait for the device, found by lightning-gpuprof inspect"
    return Section("sync_sites", "Host syncs", "page", (table,), note=note)


def place_of_line(line: SampledLine | LineCount | CodePlace | SyncSite) -> Place:
    """Return a line of code as a place."""
    return Place(
        file=line.file,
        line=line.line,
        function=line.function or None,
        source=line.source.strip() or None,
    )
