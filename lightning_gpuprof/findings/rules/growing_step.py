"""Steps take longer and longer.

## Symptom
The step time rises little by little, while what does the same work in every step, such as the
optimizer, takes as long as before.

## Why
Something that a step works on grows: a list or dictionary that each step goes through, a file that
is read from its beginning, or the batches themselves.

## Fix
Keep what has been computed instead of going through all of it again, and bound what is kept.

```python
self.seen.append(loss.item()); mean = sum(self.seen) / len(self.seen)  # before
self.total += loss.detach(); self.count += 1  # after
```

If batches grow, as with samples sorted by their length or a curriculum, that may be wanted. Then
nothing needs to change, but compare runs over the same steps.

## How it is measured
Shapes are fitted to the first quartiles of up to 48 stretches of the run: a change at once, and
growth from or until some step. Growth is reported if it explains 70% of how the stretches differ,
more than in 99 of 100 random orders of the stretches, and a quarter of the step.
`grown_per_step_ns` is what the growth has cost per step on average. Phases are attributed by the
same shape. The saving lies between none, or this cost if a line is known that appends to what
grows, and what the growth costs by now.

## Limits
If optimizer and zeroing of gradients slow down by half as much, the machine gets slower, and there
is no finding. Where forward and backward grow together, batches are supposed to grow, and no time
is claimed.
"""

from lightning_gpuprof.analysis.run.pace import PaceChange
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import (
    Abstained,
    Effort,
    Finding,
    Horizon,
    Place,
    Range,
    Severity,
)
from lightning_gpuprof.findings.places import appending_line
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.paths import short_path
from lightning_gpuprof.records.lines import LineCount
from lightning_gpuprof.records.phases import SAME_WORK, Phase
from lightning_gpuprof.units import duration

LIKE_OTHERS = 0.5
"""The machine gets slower if phases with the same work in every step rise by this share of the
step's rise; batches grow if forward and backward rise by this share of one another's."""
OF_BATCH = (Phase.FORWARD, Phase.BACKWARD)
MACHINE = (
    "the step time grows, but so does that of phases with the same work in every step: the machine "
    "gets slower"
)
BATCHES = (
    "Forward and backward grow together, as they do with larger batches: print the shapes. If "
    "samples come sorted by length, shuffle them or group equal lengths; a curriculum is meant to "
    "grow."
)
WORKS_ON = (
    "What is worked on {where} grows: a list, a dictionary or a file that each step goes through "
    "from its beginning. Keep running sums, bound what is kept, or clear it at the epoch's end."
)
SLOWER = ("slow-callback", "slow-logging", "slow-checkpoint", "slow-python", "data-wait")
EFFORT = Effort(Horizon.QUICK, "a bound on what is kept", "none")


@rule(id="growing-step", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | Abstained | None:
    """Return the finding about steps that grow, and what grows with them."""
    pace = run.variation.pace
    if pace is None or pace.per_step_ns is None:
        return None
    if _rise_frac(pace, *SAME_WORK) >= LIKE_OTHERS * _rise_frac(pace, *Phase):
        return Abstained("", MACHINE)
    if _is_of_batches(pace):
        return _finding(run, pace, OF_BATCH, BATCHES, None)
    phase = pace.main_phase
    phases = () if phase is None else (phase,)
    line = _line(run, phase) if phase is not None else None
    where = "in each step" if phase is None else f"in {phase.value}"
    if line is not None:
        where = f"at {short_path(line.file)}:{line.line} (`{line.source}`)"
    return _finding(run, pace, phases, WORKS_ON.format(where=where), line)


def _rise_frac(pace: PaceChange, *phases: Phase) -> float:
    """Return by which share some phases rise together."""
    changes = [pace.phases[phase] for phase in phases if phase in pace.phases]
    before_ns = sum(change.before_ns for change in changes)
    return sum(change.more_ns for change in changes) / before_ns if before_ns else 0.0


def _is_of_batches(pace: PaceChange) -> bool:
    rises = [_rise_frac(pace, phase) for phase in OF_BATCH]
    more_ns = sum(pace.phases[phase].more_ns for phase in OF_BATCH if phase in pace.phases)
    alike = min(rises) >= LIKE_OTHERS * max(rises) > 0
    return alike and 2 * more_ns >= pace.after_ns - pace.before_ns


def _line(run: RunResults, phase: Phase) -> LineCount | None:
    """Return the line that appends to a collection, or the program's own with most samples."""
    line = appending_line(run, (phase,))
    if line is not None or run.lines is None:
        return line
    return next(iter(run.lines.of(phase, (None, "python"))), None)


def _finding(
    run: RunResults,
    pace: PaceChange,
    phases: tuple[Phase, ...],
    advice: str,
    line: LineCount | None,
) -> Finding:
    cost_ns, now_ns = max(0, pace.mean_above_ns), max(0, pace.after_ns - pace.before_ns)
    appends = line is not None and appending_line(run, phases) is line
    of_batches = phases == OF_BATCH
    saving = Range(low=min(cost_ns, now_ns) if appends else 0, high=0 if of_batches else now_ns)
    names = " and ".join(phase.value for phase in phases)
    mostly = f", mostly in {names}" if names else ""
    evidence: dict[str, int | float] = {
        "grown_per_step_ns": cost_ns,
        "step_first_ns": pace.before_ns,
        "step_last_ns": pace.after_ns,
        "since_step_count": pace.since_step,
    }
    for phase in phases:
        evidence[f"{phase.value}_first_ns"] = pace.phases[phase].before_ns
        evidence[f"{phase.value}_last_ns"] = pace.phases[phase].after_ns
    return Finding(
        severity=Severity.INFO if of_batches else Severity.BY_SAVING,
        title=f"Steps grow by {duration(measured(pace.per_step_ns))} each since step "
        f"{pace.since_step:,}{mostly}",
        advice=advice,
        evidence=evidence,
        saving_ns=saving,
        cause_ns=Range(min(cost_ns, now_ns), now_ns),
        confidence=0.7 if appends else 0.4,
        places=(
            *([Place.at(line, phase=line.phase)] if line else []),
            *(Place(phase=phase.value) for phase in phases),
        ),
        explains=() if of_batches else SLOWER,
    )
