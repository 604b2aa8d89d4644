"""The last sections of a page: the device's memory, and a line for each remaining figure."""

from collections.abc import Iterator, Mapping

from lightning_gpuprof.analysis.memory.memory_use import MemoryUse
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import last_analysed
from lightning_gpuprof.records.phases import OWN_PART
from lightning_gpuprof.records.schema import Advice, DeviceSample
from lightning_gpuprof.report.document import Chart, Column, Figure, Figures, Section, Table, Value
from lightning_gpuprof.report.format import shown
from lightning_gpuprof.report.labels import MEMORY
from lightning_gpuprof.report.run.steps import OUTSIDE_LABELS
from lightning_gpuprof.report.run.traced import others_in
from lightning_gpuprof.report.trace_figures import conversion_figures
from lightning_gpuprof.units import duration, percent, size

NO_TRACE_NOTES = ("no-trace", "profiler-busy", "trace-failed")
"""Notes that say why there is no trace."""
NO_SYNCS = (
    "none: on a CPU, reading a value (.item()) does not wait; `lightning-gpuprof inspect "
    "SCRIPT` names the lines that would wait on a GPU"
)


def memory_section(run: RunResults) -> Section | None:
    """Return the device's memory; None if it was not measured."""
    memory = run.memory.use
    if memory is None:
        return None
    figures = (
        Figure("allocated_bytes", "allocated", memory.allocated_bytes, "bytes"),
        Figure("reserved_bytes", "reserved", memory.reserved_bytes, "bytes"),
        Figure("peak_allocated_bytes", "peak allocated", memory.peak_allocated_bytes, "bytes"),
        Figure("peak_reserved_bytes", "peak reserved", memory.peak_reserved_bytes, "bytes"),
        Figure("peak_frac", "of the device", memory.peak_frac, "frac"),
        Figure("total_bytes", "the device has", memory.total_bytes, "bytes"),
        Figure("free_bytes", "free", memory.free_bytes, "bytes"),
        Figure("others_bytes", "in use by others", memory.others_bytes, "bytes"),
        Figure("fragmented_frac", "fragmented", memory.fragmented_frac, "frac"),
        Figure("alloc_retries_count", "allocation retries", memory.alloc_retries, "count"),
        Figure("ooms_count", "times out of memory", memory.ooms, "count"),
        Figure("windows_count", "readings", memory.windows, "count"),
    )
    kinds = tuple(
        Figure(f"{kind}_bytes", MEMORY.get(kind, kind).lower(), held, "bytes")
        for kind, held in memory.kind_bytes.items()
    )
    parts: list[Figures | Table | Chart] = [Figures(figures)]
    if kinds:
        parts.append(Figures(kinds, title="By kind"))
    if memory.allocator_bytes:
        parts.append(_allocator(memory))
    parts.append(Chart("memory", "Memory over the run"))
    return Section("memory", "Device memory", "verbose", tuple(parts))


def _allocator(memory: MemoryUse) -> Table:
    pools = list(next(iter(memory.allocator_bytes.values())))
    rows: list[Mapping[str, Value]] = [
        {"name": name.replace("_", " "), **held} for name, held in memory.allocator_bytes.items()
    ]
    columns = (
        Column("name", "", "text"),
        *(Column(pool, pool.replace("_", " "), "bytes") for pool in pools),
    )
    return Table("allocator", columns, tuple(rows), title="The allocator")


def rest_section(run: RunResults) -> Section:
    """Return the remaining figures, a line for each."""
    figures = tuple(Figure(key, label, text, "text") for key, label, text in _rest(run))
    return Section("rest", "The rest", "page", (Figures(figures),))


def _rest(run: RunResults) -> Iterator[tuple[str, str, str]]:
    device = run.start.device
    if run.on_gpu:
        yield "memory", "memory", _memory_line(run.memory.use)
    on_cpu = device is not None and device.type == "cpu"
    if on_cpu and run.start.stage == "fit" and not run.facts.sync_sites:
        yield "host_syncs", "host syncs", NO_SYNCS
    if run.on_gpu and run.memory.advice is not None:
        yield "batch_size", "batch size", "; ".join(_batch_size_lines(run.memory.advice))
    if run.device.use is not None:
        yield "device", "device", _driver_line(run.device.use)
    yield "traces", "traces", _traces_line(run)
    last = last_analysed(run)
    if last is not None and last.analysis is not None:
        for figure in conversion_figures(last.analysis):
            yield (
                figure.key,
                figure.label,
                f"{shown(figure.value, figure.unit)} {figure.note or ''}",
            )
    yield "outside_steps", "outside steps", _outside_line(run)
    accounted, wall = percent(run.wall.accounted_frac), duration(run.wall.wall_ns)
    yield "wall_time", "wall time", f"{accounted} of {wall} wall time is accounted for"
    yield "own_cost", "own cost", _own_cost_line(run)
    for number, failure in enumerate(run.facts.probe_failures, start=1):
        text = f"{failure.probe} failed at step {failure.step}: {failure.error}"
        yield f"part_off_{number}", "switched off", text


def _memory_line(memory: MemoryUse | None) -> str:
    if memory is None:
        return "not measured"
    return (
        f"allocated {size(memory.allocated_bytes)}, reserved {size(memory.reserved_bytes)}, "
        f"peak {size(memory.peak_reserved_bytes)} of {size(memory.total_bytes)} "
        f"({percent(memory.peak_frac)})"
    )


def _batch_size_lines(advice: Advice) -> Iterator[str]:
    """Yield the advised batch size, or why there is none, and what to change with it."""
    if advice.suggested_batch_size is None:
        yield f"{advice.batch_size} now, no suggestion: {advice.reason}"
        return
    band = f"{advice.low} to {advice.high}" if advice.low != advice.high else ""
    why = "; ".join(filter(None, [band, advice.reason]))
    advised = f"{advice.batch_size} now, {advice.suggested_batch_size} advised"
    yield f"{advised} ({why})" if why else advised
    if accumulate := advice.details.accumulate_grad_batches:
        yield f"accumulate_grad_batches={accumulate}"
    if learning_rate := advice.details.learning_rate:
        yield str(learning_rate)


def _driver_line(use: DeviceSample) -> str:
    """Return the readings of the driver, without those that it did not report."""
    texts = []
    if use.busy_frac is not None:
        texts.append(f"a kernel ran in {percent(use.busy_frac)} of the time")
    if use.max_sm_clock_mhz is not None:
        texts.append(f"up to {use.max_sm_clock_mhz:,} MHz")
    if use.max_power_mw is not None:
        limit = f" of {use.power_limit_mw / 1000:.0f} W" if use.power_limit_mw else ""
        texts.append(f"up to {use.max_power_mw / 1000:.0f} W{limit}")
    if use.max_temperature_c is not None:
        texts.append(f"up to {use.max_temperature_c} C")
    readings = "1 reading" if use.samples == 1 else f"{use.samples} readings"
    return f"{', '.join(texts) or 'nothing'} (its driver, {readings})"


def _traces_line(run: RunResults) -> str:
    if run.traces:
        named = []
        for trace in run.traces:
            others = others_in(trace, on_gpu=run.on_gpu)
            named.append(f"{trace.cycle.trace_file}{f' ({others})' if others else ''}")
        return ", ".join(named)
    if run.start.config.get("trace") is False:
        return "none: trace=False"
    reasons = [
        note.message for note in run.facts.notes if note.name in NO_TRACE_NOTES and note.message
    ]
    return f"none: {reasons[-1]}" if reasons else "none: no cycle of the profiler schedule finished"


def _outside_line(run: RunResults) -> str:
    kinds = []
    for kind in run.outside:
        times = f" in {kind.count}" if kind.count > 1 else ""
        label = OUTSIDE_LABELS.get(kind.where, kind.where)
        kinds.append(f"{label} {duration(kind.total_ns)}{times}")
    whole = duration(run.wall.outside_ns)
    return f"{whole}: {', '.join(kinds)}" if kinds else "nothing recorded"


def _own_cost_line(run: RunResults) -> str:
    cost = run.own_cost
    text = "not measured"
    if cost is not None:
        share = f" ({cost.total_ns / run.step_ns:.2%})" if run.step_ns else ""
        text = f"{OWN_PART} takes {duration(cost.total_ns)} per step{share}"
        if cost.callbacks_ns and cost.timing_ns:
            callbacks, timing = duration(cost.callbacks_ns), duration(cost.timing_ns)
            text += f": {callbacks} in callbacks, {timing} for timing the other phases"
    if windows_ns := run.windows_ns:
        of_run = percent(run.of_run(windows_ns))
        text += f"; closing profiler windows took {duration(windows_ns)} ({of_run} of the run)"
    return text
