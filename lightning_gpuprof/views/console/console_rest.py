"""The last table of the console report: memory, traces, what lies outside steps, our own cost."""

from collections.abc import Sequence

from rich.table import Table

from lightning_gpuprof.analysis.run.device_use import DeviceUse
from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.throughput import MIN_GAIN
from lightning_gpuprof.records.schema import UNMARKED_STEPS
from lightning_gpuprof.units import duration, percent, size

MOST_RANKS = 8
_NO_TRACE = ("no-trace", "profiler-busy", "trace-failed")
"""Notes that say why there is no trace; `static/views/cycles.js` has the same."""
_NO_SYNCS = (
    "none: on a CPU reading a value (.item()) waits for nothing; `lightning-gpuprof inspect "
    "SCRIPT` names the lines that would wait on a GPU"
)
_WHERE = {UNMARKED_STEPS: "steps timed without phases"}


def rest_table(results: RunResults) -> Table:
    """Return memory, traces, time outside of steps, wall time and our own cost."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("memory", _memory(results))
    device = results.start.device
    on_cpu = device is not None and device.type == "cpu"
    if on_cpu and results.start.stage == "fit" and not results.sync_sites:
        table.add_row("host syncs", _NO_SYNCS)
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
