"""The tables of the console report."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from lightning_gpuprof.analysis.run.device_use import DeviceUse
from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.throughput import MIN_GAIN
from lightning_gpuprof.analysis.run.worker_lines import worker_line_times
from lightning_gpuprof.findings.model import Abstained
from lightning_gpuprof.records.schema import UNMARKED_STEPS
from lightning_gpuprof.units import duration, percent, shortened, size, spread
from lightning_gpuprof.views.documents.phase_rows import MIN_PART_FRAC, phase_rows
from lightning_gpuprof.views.documents.report_payload import top_operators
from lightning_gpuprof.views.documents.report_words import NAME_WIDTH

BAR_WIDTH = 40
MOST_RANKS = 8
MOST_LINES = 5
BRIEF_OPERATORS = 8
"""Operators in a report that is not verbose."""
MIN_COMPILING_FRAC = 0.1
"""From this share of the run on, what torch.compile took is told."""
MIN_WORKER_FRAC = 0.02
"""Lines below this share of the workers' work are not shown."""
LONE_STEP_FRAC = 0.2
"""From this share of all steps' time on, one step is named: the means would mislead."""
_LINE_WIDTH, _LEAST_SOURCE = 52, 20
"""Of a place in the program and its source, so that they mostly fit into one line of the table."""
_NO_TRACE = ("no-trace", "profiler-busy", "trace-failed")
"""Notes that say why there is no trace; `static/views/cycles.js` has the same."""
_WHERE = {UNMARKED_STEPS: "steps timed without phases"}


def step_lines(results: RunResults) -> Text:
    """Return the step's time and its spread, and what was left out of it."""
    steps = results.steps
    assert steps is not None
    dur = steps.dur
    rate = f", {results.samples_per_s:,.0f} samples/s" if results.samples_per_s else ""
    text = Text(f"median {duration(dur.p50_ns)}", style="bold")
    text.append(
        f", mean {duration(dur.mean_ns)}, p95 {duration(dur.p95_ns)}, p99 {duration(dur.p99_ns)}, "
        f"max {duration(dur.max_ns)}{rate}\n",
        style="not bold",
    )
    kind = {
        "steady": "steady {}",
        "watched": "{}, looked at with hooks in some of them",
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


def rest_table(results: RunResults) -> Table:
    """Return memory, traces, time outside of steps, wall time and our own cost."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("memory", _memory(results))
    if (advised := _batch_size(results)) is not None:
        table.add_row("batch size", advised)
    if results.device_use is not None:
        table.add_row("device", _driver(results.device_use))
    table.add_row("traces", _traces(results.traces, results))
    table.add_row("outside steps", _outside(results))
    wall = results.wall
    clock = f"{percent(wall.accounted_frac)} of {duration(wall.wall_ns)} wall time is accounted for"
    table.add_row("wall time", clock)
    table.add_row("own cost", _own_cost(results))
    if len(results.ranks) > 1:
        table.add_row("ranks", _ranks(results.ranks))
    for failure in results.probe_failures:
        table.add_row(
            "probe off", f"{failure.probe} failed at step {failure.step}: {failure.error}"
        )
    return table


def _driver(use: DeviceUse) -> str:
    """Return what the driver said, of whatever it said."""
    watts = None if use.max_power_mw is None else f"up to {use.max_power_mw / 1000:.0f} W"
    if watts is not None and use.power_limit_mw:
        watts += f" of {use.power_limit_mw / 1000:.0f} W"
    said = (
        None if use.busy_frac is None else f"a kernel ran in {percent(use.busy_frac)} of the time",
        None if use.max_sm_clock_mhz is None else f"up to {use.max_sm_clock_mhz:,} MHz",
        watts,
        None if use.max_temperature_c is None else f"up to {use.max_temperature_c} C",
    )
    readings = "1 reading" if use.samples == 1 else f"{use.samples} readings"
    return f"{', '.join(filter(None, said)) or 'nothing'} (its driver, {readings})"


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


def _ranks(ranks: Sequence[RankView]) -> str:
    """Say what sets the ranks apart: of many, those that the others wait for."""
    shown = sorted(ranks, key=lambda rank: (rank.waited_ns is None, rank.waited_ns))[:MOST_RANKS]
    texts = []
    for rank in sorted(shown, key=lambda rank: rank.rank) if len(ranks) <= MOST_RANKS else shown:
        step = "no steps" if rank.median_ns is None else duration(rank.median_ns)
        waits = "" if rank.waited_ns is None else f", waits {duration(rank.waited_ns)}"
        texts.append(f"rank {rank.rank}: {step}{waits}")
    hosts = len({rank.host for rank in ranks})
    where = f" on {hosts} hosts" if hosts > 1 else ""
    if len(ranks) <= MOST_RANKS:
        return f"median step{where}: " + "; ".join(texts)
    return f"{len(ranks)}{where}; median step of those that wait least: " + "; ".join(texts)


def _memory(results: RunResults) -> str:
    memory = results.memory
    if memory is None:
        return "not measured" if results.on_gpu else "not measured (no GPU)"
    return (
        f"allocated {size(memory.allocated_bytes)}, reserved {size(memory.reserved_bytes)}, "
        f"peak {size(memory.peak_reserved_bytes)} of {size(memory.total_bytes)} "
        f"({percent(memory.peak_frac)})"
    )


def _batch_size(results: RunResults) -> str | None:
    """Return the advised batch size, or why there is none; None where none was asked for."""
    advice = results.advice
    said = []
    if advice is not None and advice.suggested_batch_size is None:
        said.append(f"{advice.batch_size} now, no suggestion: {advice.reason}")
    elif advice is not None:
        band = [f"{advice.low} to {advice.high}"] * (advice.low != advice.high)
        why = "; ".join([*band, *filter(None, [advice.reason])])
        advised = f"{advice.batch_size} now, {advice.suggested_batch_size} advised"
        said.append(f"{advised} ({why})" if why else advised)
        accumulate = advice.details.get("accumulate_grad_batches")
        if accumulate is not None:
            said.append(f"accumulate_grad_batches={accumulate}")
        said += filter(None, [advice.details.get("learning_rate")])
    if results.knee is not None:
        knee = results.knee
        said.append(
            f"above {knee.samples} more memory buys less than {percent(MIN_GAIN)}"
            if knee.reached
            else f"{knee.samples} is the fastest of the sizes run: a larger one may be faster"
        )
    return "; ".join(said) or None


def _traces(traces: Sequence[TraceView], results: RunResults) -> str:
    if traces:
        return ", ".join(trace.cycle.trace_file for trace in traces)
    if results.start.config.get("trace") is False:
        return "none: trace=False"
    if results.start.stage != "fit":
        return "none: torch.profiler records the steps of a fit alone"
    reasons = [note.message for note in results.notes if note.name in _NO_TRACE and note.message]
    return f"none: {reasons[-1]}" if reasons else "none: no cycle of the profiler schedule finished"


def _outside(results: RunResults) -> str:
    kinds = [
        f"{_WHERE.get(kind.where, kind.where)} {duration(kind.total_ns)}"
        + (f" in {kind.count}" * (kind.count > 1))
        for kind in results.outside
    ]
    whole = duration(results.wall.outside_ns)
    return f"{whole}: {', '.join(kinds)}" if kinds else "nothing recorded"


def _own_cost(results: RunResults) -> str:
    cost = results.end.own_cost_ns_per_step if results.end else None
    if cost is None:
        return "not measured"
    share = f" ({cost / results.step_ns:.2%})" if results.step_ns else ""
    return f"{duration(cost)} per step{share}, by its own clock"
