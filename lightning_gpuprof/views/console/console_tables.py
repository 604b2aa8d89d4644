"""The tables of the console report."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.worker_lines import worker_line_times
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.units import duration, percent, shortened, spread
from lightning_gpuprof.views.documents.phase_rows import MIN_PART_FRAC, phase_rows
from lightning_gpuprof.views.documents.report_payload import top_operators
from lightning_gpuprof.views.documents.report_words import NAME_WIDTH

BAR_WIDTH = 40
MOST_LINES = 5
BRIEF_OPERATORS = 8
"""Operators in a report that is not verbose."""
MIN_COMPILING_FRAC = 0.1
"""From this share of the run on, the time of torch.compile is shown."""
MIN_WORKER_FRAC = 0.02
"""Lines below this share of the workers' work are not shown."""
LONE_STEP_FRAC = 0.2
"""From this share of all steps' time on, one step is named: the means would mislead."""
_LINE_WIDTH, _LEAST_SOURCE = 52, 20
"""Of a place in the program and its source, so that they mostly fit into one line of the table."""


def step_lines(results: RunResults) -> Text:
    """Return the step's time and its spread, and what was left out of it."""
    steps = results.steps
    assert steps is not None
    dur = steps.dur
    rate = f", {results.samples_per_s:,.0f} samples/s" if results.samples_per_s else ""
    text = Text(f"mean {duration(dur.mean_ns)}", style="bold")
    text.append(
        f", median {duration(dur.p50_ns)}, p95 {duration(dur.p95_ns)}, p99 {duration(dur.p99_ns)}, "
        f"max {duration(dur.max_ns)}{rate}\n",
        style="not bold",
    )
    kind = {
        "steady": "steady {}",
        "measured": "{}, the profiler on in some of them",
    }
    counted = kind.get(steps.basis, "{}, warm-up too").format("step" if dur.count == 1 else "steps")
    text.append(f"over {dur.count} {counted}", style="dim")
    for apart in steps.apart:
        text.append(
            f"; {apart.count} {apart.reason} (median {duration(apart.median_ns)})", style="dim"
        )
    compiling = results.compiling
    if compiling is not None and compiling.whole_ns >= MIN_COMPILING_FRAC * results.wall.wall_ns:
        took, whole = duration(compiling.whole_ns), duration(results.wall.wall_ns)
        text.append(f"\ntorch.compile took {took} of the run's {whole}")
    time = results.device_time
    if time is not None:
        states = [
            f"{state.value.replace('_', '-')} {percent(frac)}"
            for state, frac in sorted(time.state_frac.items(), key=lambda item: -item[1])
            if frac
        ]
        text.append(f"\nsteps by state: {', '.join(states)}")
        if results.by_device:
            text.append(
                f"\nthe device takes {duration(results.step_ns or 0)} per step, and is behind the "
                "host until an epoch's end: savings and samples are by that"
            )
    if (lone := _lone_step(results)) is not None:
        text.append(f"\n{lone}")
    return text


def _lone_step(results: RunResults) -> str | None:
    """Name a single step that moves the means below by itself, where one does."""
    steps = results.steps
    ordinary = (s for s in results.slowest if not {"profiled", "validation"} & set(s.flags))
    slow = next(ordinary, None)
    if steps is None or slow is None:
        return None
    share = slow.dur_ns / (steps.dur.mean_ns * steps.dur.count)
    if share < LONE_STEP_FRAC or steps.dur.count < 1 / LONE_STEP_FRAC:
        return None
    why = f" (in {slow.part or slow.phase.value})" if slow.phase else ""
    alone = f"step {slow.step} alone took {percent(share)} of that time{why}"
    return f"{alone}; the means below include it"


def phase_table(results: RunResults, *, bar: str, verbose: bool) -> Table:
    """Return the phases of a step with bars, and under each its named parts.

    Unless verbose, the phases that are short on the host and on the device are one row, so that
    all still add up to the step.
    """
    rows = list(phase_rows(results, verbose=verbose))
    device = any(row.device_ns is not None for row in rows)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for _ in range(3 if device else 2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for row in rows:
        style = "" if row.of_phase else "dim"
        marked = "" if row.device_ns is None else f"{duration(row.device_ns)} device"
        table.add_row(
            Text(row.name if not row.part else f"  {row.name}", style=style),
            Text(duration(row.mean_ns), style=style),
            Text(percent(row.frac), style=style),
            *([marked] if device else []),
            Text(bar * round(row.frac * BAR_WIDTH), style="blue") if row.of_phase else "",
        )
    return table


def line_table(results: RunResults) -> Table | None:
    """Return the lines of the program at which a step is longest; None where none were seen."""
    lines = [one for one in line_times(results) if one.frac >= MIN_PART_FRAC][:MOST_LINES]
    if not lines:
        return None
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("of a step", "", "in", "line", style="dim")
    for one in lines:
        table.add_row(
            spread(one.low_ns, one.high_ns),
            percent(one.frac),
            one.phase.value,
            _place(one.file, one.line, one.source),
        )
    return table


def worker_table(results: RunResults) -> Table | None:
    """Return the lines of the program that worker processes were seen at; None where none were."""
    lines = [one for one in worker_line_times(results) if one.frac >= MIN_WORKER_FRAC][:MOST_LINES]
    if not lines:
        return None
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("of a batch", "", "line", style="dim")
    for one in lines:
        each = "" if one.batch_ns is None else duration(one.batch_ns)
        table.add_row(each, percent(one.frac), _place(one.file, one.line, one.source))
    return table


def _place(file: str, line: int, source: str) -> Text:
    name = f"{file}:{line}"
    place = Text(name)
    if source:
        shown = shortened(source, max(_LEAST_SOURCE, _LINE_WIDTH - len(name)))
        place.append(f" `{shown}`", style="dim")
    return place


def operator_tables(results: RunResults, *, verbose: bool) -> Iterator[RenderableType]:
    """Yield a table of the top operators for each analysed trace of the report's rank."""
    for trace in results.traces:
        operators = top_operators(trace)
        more = "" if verbose or len(operators) <= BRIEF_OPERATORS else "; --verbose has more"
        operators = operators if verbose else operators[:BRIEF_OPERATORS]
        if trace.rank != results.start.rank or not operators:
            continue
        cycle = trace.cycle
        yield Text(
            f"\nTOP OPERATORS, CYCLE {cycle.cycle} (sums over steps {cycle.first_step} to "
            f"{cycle.last_step}, by self time{more})",
            style="bold",
        )
        table = Table.grid(padding=(0, 2))
        for _ in range(3):
            table.add_column(justify="right", no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_row("self", "total", "calls", "operator", style="dim")
        for operator in operators:
            table.add_row(
                duration(operator["self_ns"]),
                duration(operator["total_ns"]),
                f"{operator['count']:,}",
                shortened(operator["name"], NAME_WIDTH),
            )
        yield Padding(table, (0, 0, 0, 2))


def verbose_parts(
    results: RunResults, abstained: Sequence[Abstained], silent: Sequence[str]
) -> Iterator[RenderableType]:
    """Yield what only --verbose shows."""
    yield Text("\nSLOWEST STEPS", style="bold")
    table = Table.grid(padding=(0, 2))
    for slow in results.slowest:
        inside = f" ({slow.part} {duration(slow.part_excess_ns or 0)})" if slow.part else ""
        why = f"{slow.phase.value} +{duration(slow.phase_excess_ns or 0)}" if slow.phase else ""
        table.add_row(
            f"step {slow.step}", duration(slow.dur_ns), why + inside, Text(" ".join(slow.flags))
        )
    yield Padding(table, (0, 0, 0, 2))
    yield Text("\nEVERY NAMED PART (in total)", style="bold")
    table = Table.grid(padding=(0, 2))
    for part in results.parts:
        table.add_row(part.phase.value, duration(part.total_ns), shortened(part.name, NAME_WIDTH))
    yield Padding(table, (0, 0, 0, 2))
    yield Text("\nRULES WITHOUT A FINDING", style="bold")
    table = Table.grid(padding=(0, 2))
    for one in abstained:
        table.add_row(one.id, f"says nothing: {one.reason}")
    for rule in silent:
        table.add_row(rule, "looked, and found nothing worth a change")
    yield Padding(table, (0, 0, 0, 2))
