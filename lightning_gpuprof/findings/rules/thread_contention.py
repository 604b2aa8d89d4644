"""Another thread of the program makes the training thread wait for a lock.

## Symptom
Forward waits at a lock, queue or event.

## Why
If a thread holds a lock while it does something slow, every other thread that needs the lock waits
as long.

## Fix
```python
with self.lock: self.item = self.make()  # before
item = self.make()  # after
with self.lock: self.item = item
```

## How it is measured
`lock_ns` is the share of forward's stack samples at such lines, times the duration of forward.

## Limits
A thread that slows training down by computing in Python, without a lock of its own, is not found.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

MIN_SAMPLES = 100
MIN_FRAC = 0.05
LOW_FRAC, HIGH_FRAC = 0.7, 1.2
"""The exchange itself stays. More than the wait may be saved, because a thread that has waited
finds its data gone from the caches."""
MOST_LINES = 2
EFFORT = Effort(Horizon.MEDIUM, "less work under a lock, or in another process", "none")


@rule(id="thread-contention", needs=("steps", "lines"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about waits for another thread."""
    lines, step_ns, forward = (
        measured(run.lines),
        measured(run.step_ns),
        run.per_step(Phase.FORWARD),
    )
    waits = [line for line in lines.of(Phase.FORWARD) if line.waits]
    count = sum(line.count for line in waits)
    if lines.whole < MIN_SAMPLES or forward is None or not count:
        return None
    low, high = lines.interval(waits, Phase.FORWARD)
    cost_ns = round(count / lines.by_phase[Phase.FORWARD.value] * forward.mean_ns)
    if cost_ns < MIN_FRAC * step_ns or not low:
        return None
    most = min(1.0, HIGH_FRAC * high)
    saving = Range(round(LOW_FRAC * low * forward.mean_ns), round(most * forward.mean_ns))
    return Finding(
        title=f"{waits[0].function} waits {duration(cost_ns)} of each step for another thread",
        advice="Hold the lock only for the exchange: prepare the item before taking it. Or pass "
        "items through a queue, ahead of time.",
        evidence={"lock_ns": cost_ns},
        saving_ns=saving,
        cause_ns=Range(cost_ns, round(high * forward.mean_ns)),
        confidence=0.8,
        places=tuple(Place.at(line, phase=line.phase) for line in waits[:MOST_LINES]),
    )
