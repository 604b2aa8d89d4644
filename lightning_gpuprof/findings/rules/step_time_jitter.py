"""Some steps take far longer than the others.

## Symptom
Some steps take at least 1.5 times as long as the median step, or Python's garbage collector makes
full collections.

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

from lightning_gpuprof.analysis.run.line_samples import COLLECTS
from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.outliers import Spikes
from lightning_gpuprof.analysis.run.pace import PaceChange
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
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

LOW_FRAC = 0.9
MIN_FRAC = 0.02
MIN_COLLECTIONS = 3
"""Fewer full collections are usual: any program makes some as it begins."""
FROZEN_FRAC = 0.5
LINE_FRAC = 0.5
GC_FRAC = 0.02
"""In a loop that makes a few hundred objects per step, CPython's own collections take less."""
CALLED = (
    "{function} calls gc.collect() ({file}:{line}). Remove the call, or make it once per epoch: "
    "Python collects by itself."
)
FREEZE = (
    "Python's garbage collector runs in these steps. Freeze objects that live through the whole "
    "run, and make fewer Python objects per step: arrays and tensors instead of lists."
)
REGULAR = (
    "Find what the program does every {every:.0f} steps, such as a figure, a print or a file. "
    "Remove it from the loop, or do it far less often."
)
NO_PATTERN = "The slow steps follow no pattern, and nothing recorded explains them"
SHAPES = (
    f"{NO_PATTERN}. With new batch shapes torch allocates memory, and "
    "Trainer(benchmark=True) tries algorithms: pad to a few lengths."
)
UNKNOWN = f"{NO_PATTERN}: look for other programs on this machine first."
SIZES = (
    f"{NO_PATTERN}, but batches differ in size: the first hold {{low:,}} to {{high:,}} numbers. "
    "Group samples of alike length, so that steps take equally long."
)
SIZES_SPREAD = 0.25
LASTS = "the step time changes at step {step:,} and stays so, which is not jitter"
GROWS = "the step time grows from step {step:,} on, which is not jitter"
EFFORT = Effort(Horizon.QUICK, "what runs at intervals is done far less often", "none")
CALL_EFFORT = Effort(Horizon.QUICK, "a call taken out of the loop", "none")
FREEZE_EFFORT = Effort(
    Horizon.QUICK, "two lines before training", "cycles among frozen objects are never freed"
)


@rule(id="step-time-jitter", needs=("steps",), effort=EFFORT)
def judge(run: RunResults) -> Finding | Abstained | None:
    """Return a finding about spikes, or about the garbage collector."""
    spikes, step_ns = run.variation.spikes, measured(run.step_ns)
    if spikes is None:
        return None
    collected_ns, collections = _collections(run, spikes)
    if collections >= MIN_COLLECTIONS and collected_ns >= GC_FRAC * step_ns:
        return _of_collector(run, spikes, collected_ns)
    regular = spikes.count > 1 and spikes.every_steps is not None
    if not regular and run.slow_down is not None and run.slow_down.slow_down.lasts:
        return Abstained("", LASTS.format(step=run.slow_down.slow_down.since_step))
    if not regular and run.variation.pace is not None:
        return Abstained("", _lasts(run.variation.pace))
    if not regular and (spikes.count < 2 or spikes.excess_per_step_ns < MIN_FRAC * step_ns):
        return None
    if not regular and run.device.time is not None and run.device.time.is_behind:
        return None  # the host waits until the device's queue has room, for varying times
    most = spikes.excess_per_step_ns if regular else 0
    saving = Range(low=round(LOW_FRAC * most), high=most)
    rhythm = f", every {spikes.every_steps:.0f} steps" if spikes.every_steps else ""
    excess = duration(spikes.excess_ns / max(1, spikes.count))
    advice = _of_sizes(run) or (SHAPES if run.on_gpu else UNKNOWN)
    evidence = _evidence(spikes, collected_ns)
    if spikes.every_steps:
        advice = REGULAR.format(every=spikes.every_steps)
        evidence["steps_between_count"] = round(spikes.every_steps)
    return Finding(
        severity=Severity.BY_SAVING if regular else Severity.INFO,
        title=f"{spikes.count} of {spikes.steps} steps take {excess} more than usual{rhythm}",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        cause_ns=Range(most, most),
        confidence=0.6 if regular else 0.3,
        places=_spiking(run, spikes),
    )


def _of_sizes(run: RunResults) -> str | None:
    """Return the advice on batches of very different sizes; None if they are alike.

    The middle nine tenths of the sizes count, because the last batch of an epoch is smaller.
    """
    sizes = sorted(run.facts.batch_sizes[0].sizes) if run.facts.batch_sizes else []
    without = len(sizes) // 10
    low, high = (sizes[without], sizes[-1 - without]) if sizes else (0, 0)
    if high <= (1 + SIZES_SPREAD) * low:
        return None
    return SIZES.format(low=low, high=high)


def _lasts(pace: PaceChange) -> str:
    return (LASTS if pace.until_step is None else GROWS).format(step=pace.since_step)


def _collections(run: RunResults, spikes: Spikes) -> tuple[int, int]:
    """Return the collector's mean time per step, and how many steps it ran in.

    Without a call of gc.collect(), the collections that follow compilations are left out, because
    they belong to these.
    """
    collected_ns = (run.every.mean_ns(Phase.GARBAGE_COLLECTION) if run.every else None) or 0
    compiling = run.compiled.time
    if run.every is None or compiling is None or _collecting_lines(run):
        return collected_ns, spikes.gc_count
    of_compiling_ns = compiling.collected_ns // max(1, run.every.steps)
    return max(0, collected_ns - of_compiling_ns), spikes.gc_count - compiling.collected_count


def _collecting_lines(run: RunResults) -> list[LineCount]:
    """Return the sampled lines that call the collector."""
    sampled = run.lines.lines if run.lines else ()
    return [line for line in sampled if COLLECTS in line.source]


def _of_collector(run: RunResults, spikes: Spikes, collected_ns: int) -> Finding:
    """Return the finding about the garbage collector, at the line that calls it if one does."""
    call = max(_collecting_lines(run), key=lambda line: line.count, default=None)
    saving = Range(low=round(FROZEN_FRAC * collected_ns), high=collected_ns)
    advice, change = FREEZE, "gc.collect()\ngc.freeze()  # once, before trainer.fit"
    phase = Phase.GARBAGE_COLLECTION.value
    parts = run.parts_of(Phase.GARBAGE_COLLECTION)
    name = max(parts, key=lambda part: part.total_ns).name if parts else None
    place = Place(phase=phase, name=name)
    if call is not None:
        saving = Range(*around(collected_ns))
        file = short_path(call.file)
        advice = CALLED.format(function=call.function, file=file, line=call.line)
        place = Place.at(call, phase=phase, name=name)
    return Finding(
        title=f"Python's garbage collector takes {duration(collected_ns)} of each step",
        advice=advice,
        evidence=_evidence(spikes, collected_ns),
        saving_ns=saving,
        cause_ns=Range(collected_ns, collected_ns),
        confidence=0.9,
        places=(place,),
        change=None if call is not None else change,
        effort=FREEZE_EFFORT if call is None else CALL_EFFORT,
    )


def _evidence(spikes: Spikes, collected_ns: int) -> dict[str, int | float]:
    return {
        "spikes_count": spikes.count,
        "excess_ns": spikes.excess_ns // max(1, spikes.count),
        "excess_per_step_ns": spikes.excess_per_step_ns,
        "collections_count": spikes.gc_count,
        "collecting_per_step_ns": collected_ns,
    }


def _spiking(run: RunResults, spikes: Spikes) -> tuple[Place, ...]:
    """Return the phase of the spikes, or the line that takes most of them if they are regular."""
    if spikes.phase is None:
        return ()
    least_ns = LINE_FRAC * spikes.excess_per_step_ns
    lines = [
        line for line in line_times(run) if line.phase is spikes.phase and line.low_ns >= least_ns
    ]
    if spikes.every_steps is not None and lines:
        return (Place.at(lines[0], phase=spikes.phase.value),)
    return (Place(phase=spikes.phase.value),)
