"""Some steps take far longer than the others.

## Symptom
Steps take half a median step or more above the median, or Python's garbage collector makes full
collections.

## Why
Medians hide such spikes, but they cost time. With DDP every rank waits for the spikes of all ranks.

## Fix
Spikes at regular intervals have a cause in the program: `gc.collect()`, `empty_cache()`, a print or
a file.

```python
gc.collect()  # before: in the loop
gc.collect(); gc.freeze()  # after: once, before trainer.fit
```

## How it is measured
`excess_per_step_ns` is what spikes take above the median, in phases that should always take the
same. `collecting_per_step_ns` is the collector's time, which is measured by itself. Removing
regular spikes saves nine tenths or more of their excess; freezing objects saves half of the
collector's time or more.

## Limits
Irregular spikes without a known cause are `info` and save nothing. A change of the step time that
lasts is not jitter.
"""

from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.outliers import Spikes
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Place,
    Range,
    Severity,
)
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

LOW_FRAC = 0.9
MIN_FRAC = 0.02
MIN_COLLECTIONS = 3
"""Any program makes a full collection at first."""
FROZEN_FRAC = 0.5
LINE_FRAC = 0.5
GC_FRAC = 0.02
"""CPython's own collections take less of a loop that makes a few hundred objects a step."""
CALLED = (
    "{function} calls gc.collect() ({file}:{line}). Remove the call, or make it once per epoch: "
    "Python collects by itself."
)
FREEZE = (
    "Python's garbage collector runs in these steps. Remove gc.collect() from the loop, and freeze "
    "objects that live through the whole run."
)
REGULAR = (
    "Find what the program does every {every:.0f} steps, such as a figure, a print, a file, "
    "gc.collect() or empty_cache(). Remove it from the loop, or do it far less often."
)
NO_PATTERN = "The slow steps follow no pattern, and nothing recorded explains them"
SHAPES = (
    f"{NO_PATTERN}. New batch shapes make torch allocate memory, and "
    "Trainer(benchmark=True) try algorithms: pad to a few lengths."
)
UNKNOWN = f"{NO_PATTERN}: look for other programs on this machine first."
LASTS = "steps take another time from step {step:,} on, which is a change and no jitter"
EFFORT = Effort(Horizon.QUICK, "a call taken out of the loop", "none")


@rule(id="step-time-jitter", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where spikes or the collector cost time."""
    seen, step_ns = run.variation.spikes, measured(run.step_ns)
    if seen is None:
        return None
    collected_ns = (run.every.mean_ns(Phase.GARBAGE_COLLECTION) if run.every else None) or 0
    if seen.gc_count >= MIN_COLLECTIONS and collected_ns >= GC_FRAC * step_ns:
        return _of_collector(run, seen, collected_ns)
    if seen.changed is not None:
        return Abstained("", LASTS.format(step=seen.changed.step))
    regular = seen.count > 1 and seen.every_steps is not None
    if not regular and (seen.count < 2 or seen.excess_per_step_ns < MIN_FRAC * step_ns):
        return None
    if not regular and run.device.time is not None and run.device.time.is_behind:
        return None  # the host waits for a place in the device's queue, now longer, now shorter
    most = seen.excess_per_step_ns if regular else 0
    saving = Range(low=round(LOW_FRAC * most), high=most)
    rhythm = f", every {seen.every_steps:.0f} steps" if seen.every_steps else ""
    each = duration(seen.excess_ns / max(1, seen.count))
    advice = SHAPES if run.on_gpu else UNKNOWN
    evidence = _evidence(seen, collected_ns)
    if seen.every_steps:
        advice = REGULAR.format(every=seen.every_steps)
        evidence["steps_between_count"] = round(seen.every_steps)
    return Finding(
        severity=Severity.BY_SAVING if regular else Severity.INFO,
        title=f"{seen.count} of {seen.steps} steps take {each} more{rhythm}",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        cause_ns=Range(most, most),
        confidence=0.6 if regular else 0.3,
        places=_spiking(run, seen),
    )


def _of_collector(run: RunResults, seen: Spikes, collected_ns: int) -> Finding:
    sampled = run.lines.lines if run.lines else ()
    calls = [one for one in sampled if "gc.collect(" in one.source]
    call = max(calls, key=lambda one: one.count, default=None)
    saving = Range(low=round(FROZEN_FRAC * collected_ns), high=collected_ns)
    advice, change = FREEZE, "gc.collect()\ngc.freeze()  # once, before trainer.fit"
    phase = Phase.GARBAGE_COLLECTION.value
    parts = run.parts_of(Phase.GARBAGE_COLLECTION)
    name = max(parts, key=lambda part: part.total_ns).name if parts else None
    place = Place(phase=phase, name=name)
    if call is not None:
        saving = Range(*around(collected_ns))
        advice = CALLED.format(function=call.function, file=call.file, line=call.line)
        place = Place.at(call, phase=phase, name=name)
    return Finding(
        title=f"Python's garbage collector takes {duration(collected_ns)} of each step",
        advice=advice,
        evidence=_evidence(seen, collected_ns),
        saving_ns=saving,
        cause_ns=Range(collected_ns, collected_ns),
        confidence=0.9,
        places=(place,),
        change=None if call is not None else change,
    )


def _evidence(seen: Spikes, collected_ns: int) -> dict[str, int | float]:
    return {
        "spikes_count": seen.count,
        "excess_per_step_ns": seen.excess_per_step_ns,
        "collections_count": seen.gc_count,
        "collecting_per_step_ns": collected_ns,
    }


def _spiking(run: RunResults, seen: Spikes) -> tuple[Place, ...]:
    """Return the spikes' phase, and of regular ones the line that takes most of them."""
    if seen.phase is None:
        return ()
    least_ns = LINE_FRAC * seen.excess_per_step_ns
    lines = [one for one in line_times(run) if one.phase is seen.phase and one.low_ns >= least_ns]
    if seen.every_steps is not None and lines:
        return (Place.at(lines[0], phase=seen.phase.value),)
    return (Place(phase=seen.phase.value),)
