"""Single steps take far longer than the others.

## What it measures
`excess_per_step_ns`: what steps half a step or more above the median took above it, in the phases
that should take the same each time, spread over all steps; `collecting_per_step_ns`: what full runs
of Python's garbage collector took, which are a phase of their own whatever they fell into.

## Why it matters
Spikes hide in medians and cost all the same; under DDP every rank waits for each rank's spikes.

## What to do
Spikes at regular distances have a cause in the program: `gc.collect()` or `empty_cache()` in the
loop, automatic garbage collection over many live objects (`gc.freeze()` after the setup), a print
or a file written every n steps. Irregular ones come from other work on the machine.

## Thresholds
`SPIKE_FRAC`, `REGULAR`, `TALL`: see `uneven/spikes.py`. `LINE_FRAC`: of regular ones the line is
named that samples saw in their phase, if it may take half of what they take at the least. Irregular
spikes without a recorded cause are told as `info` from `MIN_TOLD_FRAC` of the time on, without a
saving, whatever they cost: they are more often the machine's than the program's; and not where
steps wait for the device, as the host's wait for a place in its queue is now longer, now shorter,
or where what the model computes with grows. `LOW_FRAC`: of regular ones, chance adds a tenth.
`MIN_COLLECTIONS`: a single full collection, which any program makes once its imports and first
objects have settled, is no rate. `GC_FRAC`: where the collector takes more, or makes regular
spikes, the saving is its time, a fifth more or less, or what its steps take longer beside it, too.
`FROZEN_FRAC`: where no call of it was seen, what is made anew is still gone through: in a program
that makes trees whose nodes know each other in each step, `gc.freeze()` saved 54 % of the
collector's time (three runs without it, four with), and other thresholds no more. Severity: the
common scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.host_lines import LineCount, host_lines
from lightning_gpuprof.analysis.run.line_times import line_times
from lightning_gpuprof.analysis.run.outliers import Spikes
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Range,
    Severity,
    Where,
)
from lightning_gpuprof.records.core_use import MIN_FOREIGN, core_use_noted
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

ID = "step-time-jitter"
EFFORT = Effort(Horizon.QUICK, "a call taken out of the loop", "none")
LOW_FRAC = 0.9
MIN_TOLD_FRAC = 0.02
MIN_COLLECTIONS = 3
FROZEN_FRAC = 0.5
LINE_FRAC = 0.5
GC_FRAC = 0.02
"""CPython's own collections take less of a training loop that makes a few hundred objects a
step."""

NEW_SHAPES = (Phase.FORWARD, Phase.BACKWARD)
NEW_SHAPES_ADVICE = (
    "Where batches come in shapes not seen before, {why}memory is asked for anew: {change}pad to a "
    "few lengths. Else look for other programs on this machine."
)
TRIED_OUT = "Trainer(benchmark=True) has cuDNN try its algorithms out in each such step, and "


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where spikes cost time."""
    if run.spikes is None or run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    seen = run.spikes
    mean_ns = run.every.mean_ns(Phase.GARBAGE_COLLECTION) if run.every else None
    collected_ns = mean_ns or 0
    by_collector = seen.gc_count >= MIN_COLLECTIONS and (
        collected_ns >= GC_FRAC * run.step_ns or seen.gc_spikes_every_steps is not None
    )
    if seen.count < 2 and not by_collector:
        return None
    known = by_collector or seen.every_steps is not None
    if not known and run.device_time is not None and run.device_time.is_behind:
        return None  # the host waits for a place in the device's queue, now longer, now shorter
    if not known and seen.excess_per_step_ns < MIN_TOLD_FRAC * run.step_ns:
        return None
    call = _called_at(run)
    saving = _saving(seen, collected_ns, by_collector=by_collector, called=call is not None)
    advice, change = _advice(run, seen, call, by_collector=by_collector)
    evidence: dict[str, int | float] = {
        "spikes_count": seen.count,
        "excess_per_step_ns": seen.excess_per_step_ns,
        "step_ns": run.step_ns,
    }
    if seen.every_steps is not None:
        evidence["steps_between_count"] = round(seen.every_steps)
    if mean_ns is not None:
        evidence["collections_count"] = seen.gc_count
        evidence["collecting_per_step_ns"] = collected_ns
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns) if known else Severity.INFO,
        title=_title(seen, collected_ns if by_collector else None),
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        confidence=0.9 if by_collector else 0.6 if known else 0.3,
        where=_collecting(run) if by_collector else _spiking(run, seen),
        change=change,
    )


def _saving(seen: Spikes, collected_ns: int, *, by_collector: bool, called: bool) -> Range:
    if by_collector and not called:
        return Range(low=round(FROZEN_FRAC * collected_ns), high=collected_ns)
    if by_collector:
        least, most = around(collected_ns)
        return Range(low=least, high=max(most, round((1 + seen.gc_after_frac) * collected_ns)))
    if seen.every_steps is not None:
        most = seen.excess_per_step_ns
        return Range(low=round(LOW_FRAC * most), high=most)
    # Without a cause there is no change to make, so no saving to promise.
    return Range(low=0, high=0)


def _collecting(run: RunResults) -> tuple[Where, ...]:
    """Return what the collector ran in most, and the call of it that was seen."""
    phase, call = Phase.GARBAGE_COLLECTION.value, _called_at(run)
    most = max(run.parts_of(Phase.GARBAGE_COLLECTION), key=lambda p: p.total_ns, default=None)
    name = None if most is None else most.name
    if call is None:
        return (Where(phase=phase, name=name),)
    return (Where.at(call, phase=phase, name=name),)


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
        return f"Python's garbage collector takes {duration(collected_ns)} of each step on average"
    where = f" in {seen.phase.value}" if seen.phase else ""
    rhythm = f", every {seen.every_steps:.0f} steps" if seen.every_steps else ""
    each = duration(seen.excess_ns / seen.count)
    return f"{seen.count} of {seen.steps} steps take {each} more than the others{where}{rhythm}"


def _called_at(run: RunResults) -> LineCount | None:
    """Return the program's own call of the collector, where samples show one."""
    lines = host_lines(run.notes)
    seen = () if lines is None else lines.lines
    calls = [one for one in seen if "gc.collect(" in one.source]
    return max(calls, key=lambda one: one.count, default=None)


def _advice(
    run: RunResults, seen: Spikes, call: LineCount | None, *, by_collector: bool
) -> tuple[str, str | None]:
    if by_collector and call is not None:
        return (
            f"{call.function} calls gc.collect() ({call.file}:{call.line}): take the call out, or "
            "make it once per epoch. Python collects by itself where it has to.",
            None,
        )
    if by_collector:
        return (
            "Python's garbage collector runs in these steps: take gc.collect() out of the loop, "
            "and "
            "freeze what lives through the whole run.",
            "gc.collect()\ngc.freeze()  # once, before trainer.fit",
        )
    if seen.every_steps:
        return (
            f"Look for what the program does every {seen.every_steps:.0f} steps: a figure or a "
            "picture, a print, a file, gc.collect(), empty_cache(). Take it out of the loop, or do "
            "it far less often.",
            None,
        )
    if run.on_gpu and seen.phase in NEW_SHAPES:
        # Records from before torch's settings were written down do not say.
        tries = run.start.torch_settings.get("cudnn_benchmark", True)
        advice = NEW_SHAPES_ADVICE.format(
            why=TRIED_OUT if tries else "", change="leave it out, or " if tries else ""
        )
        return f"No pattern and no recorded cause. {advice}", None
    return f"No pattern and no recorded cause{_others(run)}", None


def _others(run: RunResults) -> str:
    use = core_use_noted(run.notes)
    if use is None or use.foreign_cores + use.stolen_cores >= MIN_FOREIGN:
        return ": look for other programs on this machine first."
    used = use.foreign_cores + use.stolen_cores
    return f". Other programs used {used:.2f} of the {use.cores} cores only."
