"""The last table of the console report: memory, traces, time outside of steps, our own cost."""

from collections.abc import Iterator, Sequence

from lightning_gpuprof.analysis.run.ranks.rank_view import RankView
from lightning_gpuprof.analysis.run.run_results import RunResults, TraceView
from lightning_gpuprof.analysis.run.trace_facts import last_analysed
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import UNMARKED_STEPS, DeviceSample
from lightning_gpuprof.units import duration, percent, size
from lightning_gpuprof.views.documents.gpu_words import to_calls_line

MOST_RANKS, MOST_EVENTS = 8, 10
_NO_TRACE = ("no-trace", "profiler-busy", "trace-failed")
"""Notes that say why there is no trace; `static/views/cycles.js` has the same."""
_NO_SYNCS = (
    "none: on a CPU reading a value (.item()) waits for nothing; `lightning-gpuprof inspect "
    "SCRIPT` names the lines that would wait on a GPU"
)
_WHERE = {UNMARKED_STEPS: "steps timed without phases"}


def rest_rows(results: RunResults) -> Iterator[tuple[str, str]]:
    """Yield memory, traces, time outside of steps, wall time and our own cost."""
    device = results.start.device
    if results.on_gpu:
        yield "memory", _memory(results)
    on_cpu = device is not None and device.type == "cpu"
    if on_cpu and results.start.stage == "fit" and not results.facts.sync_sites:
        yield "host syncs", _NO_SYNCS
    if results.on_gpu and (advice := "; ".join(_batch_size(results))):
        yield "batch size", advice
    if results.device.use is not None:
        yield "device", _driver(results.device.use)
    yield "traces", _traces(results)
    for event in results.compiled.events[:MOST_EVENTS]:
        yield event.what, f"{event.place.file}:{event.place.line} {event.reason}"
    if (left := len(results.compiled.events) - MOST_EVENTS) > 0:
        yield "torch.compile", f"{left} more graph breaks and recompilations"
    if (last := last_analysed(results)) and (said := to_calls_line(last.analysis or {})):
        yield ".to()", said
    yield "outside steps", _outside(results)
    accounted, wall = percent(results.wall.accounted_frac), duration(results.wall.wall_ns)
    yield "wall time", f"{accounted} of {wall} wall time is accounted for"
    yield "own cost", _own_cost(results)
    if len(results.ranks.views) > 1:
        yield "ranks", _ranks(results.ranks.views)
    for one in results.facts.probe_failures:
        yield "part off", f"{one.probe} failed at step {one.step}: {one.error}"


def _memory(results: RunResults) -> str:
    memory = results.memory.use
    if memory is None:
        return "not measured"
    return (
        f"allocated {size(memory.allocated_bytes)}, reserved {size(memory.reserved_bytes)}, "
        f"peak {size(memory.peak_reserved_bytes)} of {size(memory.total_bytes)} "
        f"({percent(memory.peak_frac)})"
    )


def _batch_size(results: RunResults) -> Iterator[str]:
    """Yield the advised batch size, or why there is none; nothing where none was asked for."""
    advice = results.memory.advice
    if advice is not None and advice.suggested_batch_size is None:
        yield f"{advice.batch_size} now, no suggestion: {advice.reason}"
    elif advice is not None:
        band = f"{advice.low} to {advice.high}" if advice.low != advice.high else ""
        why = "; ".join(filter(None, [band, advice.reason]))
        advised = f"{advice.batch_size} now, {advice.suggested_batch_size} advised"
        yield f"{advised} ({why})" if why else advised
        if accumulate := advice.details.accumulate_grad_batches:
            yield f"accumulate_grad_batches={accumulate}"
        if rate := advice.details.learning_rate:
            yield str(rate)


def _driver(use: DeviceSample) -> str:
    """Return what the driver said, of whatever it said."""
    said = []
    if use.busy_frac is not None:
        said.append(f"a kernel ran in {percent(use.busy_frac)} of the time")
    if use.max_sm_clock_mhz is not None:
        said.append(f"up to {use.max_sm_clock_mhz:,} MHz")
    if use.max_power_mw is not None:
        limit = f" of {use.power_limit_mw / 1000:.0f} W" if use.power_limit_mw else ""
        said.append(f"up to {use.max_power_mw / 1000:.0f} W{limit}")
    if use.max_temperature_c is not None:
        said.append(f"up to {use.max_temperature_c} C")
    readings = "1 reading" if use.samples == 1 else f"{use.samples} readings"
    return f"{', '.join(said) or 'nothing'} (its driver, {readings})"


def _traces(results: RunResults) -> str:
    if results.traces:
        return ", ".join(_trace(one, on_gpu=results.on_gpu) for one in results.traces)
    if results.start.config.get("trace") is False:
        return "none: trace=False"
    reasons = [
        note.message for note in results.facts.notes if note.name in _NO_TRACE and note.message
    ]
    return f"none: {reasons[-1]}" if reasons else "none: no cycle of the profiler schedule finished"


def _trace(trace: TraceView, *, on_gpu: bool) -> str:
    others = trace.others_ns.items()
    left_in = {Phase.CALLBACKS} if on_gpu else set()  # on a GPU most of these are not paused for
    out = {phase for phase, _ in others if trace.cycle.quiet} - left_in
    said = []
    for how, phases in (("without", out), ("in it also", trace.others_ns.keys() - out)):
        found = [f"{phase.value} {duration(ns)}" for phase, ns in others if phase in phases]
        said += [f"{how} {', '.join(found)}"] if found else []
    return f"{trace.cycle.trace_file} ({'; '.join(said)})" if said else trace.cycle.trace_file


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
    share = f" ({cost / results.step_ns:.2%})" if results.step_ns and cost is not None else ""
    said = "not measured" if cost is None else f"{duration(cost)} per step{share}, by its own clock"
    if windows_ns := results.windows_ns:
        of_run = percent(results.of_run(windows_ns))
        said += f"; closing profiler windows took {duration(windows_ns)} ({of_run} of the run)"
    return said


def _ranks(ranks: Sequence[RankView]) -> str:
    """Say how the ranks differ: of many, those that the others wait for."""
    few = len(ranks) <= MOST_RANKS
    shown = sorted(ranks, key=lambda rank: (rank.waited_ns is None, rank.waited_ns))[:MOST_RANKS]
    texts = []
    for rank in sorted(shown, key=lambda rank: rank.rank) if few else shown:
        step = "no steps" if rank.median_ns is None else duration(rank.median_ns)
        waits = "" if rank.waited_ns is None else f", waits {duration(rank.waited_ns)}"
        texts.append(f"rank {rank.rank}: {step}{waits}")
    hosts = len({rank.host for rank in ranks})
    where = f" on {hosts} hosts" if hosts > 1 else ""
    start = "" if few else f"{len(ranks)}{where}; "
    which = f"median step{where}" if few else "median step of those that wait least"
    return f"{start}{which}: {'; '.join(texts)}"
