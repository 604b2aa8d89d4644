"""Single steps take far longer than the others.

## Symptom
Steps half a step or more above the median, or full runs of Python's garbage collector.

## Why
Spikes hide in medians and cost all the same; under DDP every rank waits for each rank's spikes.

## Fix
Regular spikes have a cause in the program: `gc.collect()`, `empty_cache()`, a print or file every n
steps.

```python
gc.collect()  # before: in the loop
gc.collect(); gc.freeze()  # after: once, before trainer.fit
```

## How it is measured
`excess_per_step_ns`: what spikes took above the median, in phases that should take the same;
`collecting_per_step_ns`: the collector's time, measured by itself. Regular spikes save nine tenths
and more; freezing, half of the collector's time and more.

## Limits
Irregular spikes without a cause are `info` and save nothing: they are more often the machine's.
"""

from lightning_gpuprof.analysis.run.host_lines import LineCount
from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.outliers import Spikes
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

LOW_FRAC = 0.9
MIN_TOLD_FRAC = 0.02
MIN_COLLECTIONS = 3
"""A single full collection, which any program makes at first, is no rate."""
FROZEN_FRAC = 0.5
LINE_FRAC = 0.5
GC_FRAC = 0.02
"""CPython's own collections take less of a loop that makes a few hundred objects a step."""
CALLED = (
    "{function} calls gc.collect() ({file}:{line}): take the call out, or make it once per epoch. "
    "Python collects by itself where it has to."
)
FREEZE = (
    "Python's garbage collector runs in these steps: take gc.collect() out of the loop, and freeze "
    "what lives through the whole run."
)
REGULAR = (
    "Look for what the program does every {every:.0f} steps: a figure or a picture, a print, a "
    "file, gc.collect(), empty_cache(). Take it out of the loop, or do it far less often."
)
SHAPES = (
    "No pattern and no recorded cause. Where batches come in shapes not seen before, memory is "
    "asked for anew, and Trainer(benchmark=True) tries algorithms out: pad to a few lengths."
)
UNKNOWN = "No pattern and no recorded cause: look for other programs on this machine first."
EFFORT = Effort(Horizon.QUICK, "a call taken out of the loop", "none")


@rule(id="step-time-jitter", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where spikes cost time."""
    seen, step_ns = run.spikes, measured(run.step_ns)
    if seen is None:
        return None
    collected_ns = (run.every.mean_ns(Phase.GARBAGE_COLLECTION) if run.every else None) or 0
    by_collector = seen.gc_count >= MIN_COLLECTIONS and collected_ns >= GC_FRAC * step_ns
    known = by_collector or (seen.count > 1 and seen.every_steps is not None)
    if not known and (seen.count < 2 or seen.excess_per_step_ns < MIN_TOLD_FRAC * step_ns):
        return None
    if not known and run.device_time is not None and run.device_time.is_behind:
        return None  # the host waits for a place in the device's queue, now longer, now shorter
    call = _collects(run)
    saving = Range(low=0, high=0)
    if by_collector:
        saving = Range(low=round(FROZEN_FRAC * collected_ns), high=collected_ns)
        if call is not None:
            saving = Range(*around(collected_ns))
    elif known:
        most = seen.excess_per_step_ns
        saving = Range(low=round(LOW_FRAC * most), high=most)
    advice, change = _advice(run, seen, call, by_collector=by_collector)
    evidence: dict[str, int | float] = {
        "spikes_count": seen.count,
        "excess_per_step_ns": seen.excess_per_step_ns,
        "step_ns": step_ns,
        "collections_count": seen.gc_count,
        "collecting_per_step_ns": collected_ns,
    }
    if seen.every_steps is not None:
        evidence["steps_between_count"] = round(seen.every_steps)
    return Finding(
        severity=grade(saving, step_ns) if known else Severity.INFO,
        title=_title(seen, collected_ns if by_collector else None),
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if by_collector else 0.6 if known else 0.3,
        where=_collecting(run, call) if by_collector else _spiking(run, seen),
        change=change,
    )


def _collecting(run: RunResults, call: LineCount | None) -> tuple[Where, ...]:
    """Return what the collector ran in most, and the call of it that was seen."""
    phase = Phase.GARBAGE_COLLECTION.value
    most = max(run.parts_of(Phase.GARBAGE_COLLECTION), key=lambda p: p.total_ns, default=None)
    name = None if most is None else most.name
    return (Where.at(call, phase=phase, name=name) if call else Where(phase=phase, name=name),)


def _spiking(run: RunResults, seen: Spikes) -> tuple[Where, ...]:
    """Return the spikes' phase, and of regular ones the line that takes most of them."""
    if seen.phase is None:
        return ()
    least_ns = LINE_FRAC * seen.excess_per_step_ns
    lines = [one for one in line_times(run) if one.phase is seen.phase and one.low_ns >= least_ns]
    if seen.every_steps is not None and lines:
        return (Where.at(lines[0], phase=seen.phase.value),)
    return (Where(phase=seen.phase.value),)


def _title(seen: Spikes, collected_ns: int | None) -> str:
    if collected_ns is not None:
        return f"Python's garbage collector takes {duration(collected_ns)} of each step"
    rhythm = f", every {seen.every_steps:.0f} steps" if seen.every_steps else ""
    each = duration(seen.excess_ns / max(1, seen.count))
    return f"{seen.count} of {seen.steps} steps take {each} more{rhythm}"


def _collects(run: RunResults) -> LineCount | None:
    """Return the program's own call of the collector, where samples show one."""
    seen = run.lines.lines if run.lines else ()
    calls = [one for one in seen if "gc.collect(" in one.source]
    return max(calls, key=lambda one: one.count, default=None)


def _advice(
    run: RunResults, seen: Spikes, call: LineCount | None, *, by_collector: bool
) -> tuple[str, str | None]:
    if by_collector and call is not None:
        return CALLED.format(function=call.function, file=call.file, line=call.line), None
    if by_collector:
        return FREEZE, "gc.collect()\ngc.freeze()  # once, before trainer.fit"
    if seen.every_steps:
        return REGULAR.format(every=seen.every_steps), None
    return SHAPES if run.on_gpu else UNKNOWN, None
