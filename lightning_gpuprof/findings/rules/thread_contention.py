"""Another thread of the program holds the training thread up: by a lock, or by Python's own.

## Symptom
Forward waits at a lock, queue or event, or the training thread stands still while another computes
in Python.

## Why
One thread at a time runs Python. Each operator has to ask for that right again, which a computing
thread grants every 5 ms only. A lock held during something slow makes the other wait as long.

## Fix
```python
with self.lock: self.item = self.make()  # before
item = self.make()  # after
with self.lock: self.item = item
```

Move work in Python to another process.

## How it is measured
`lock_ns`: samples of forward at such lines. `idle_frac`, `busy_frac`: the kernel's account of the
threads' times, less phases that wait for files and servers anyway.

## Limits
On a GPU only waits at lines are reported.
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount, ThreadLoad, ThreadUse
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.units import duration, percent

MIN_SAMPLES = 100
MIN_FRAC = 0.05
LOW_FRAC, AWAY_FRAC = 0.7, 1.2
"""The exchange itself stays; a thread that comes back finds others' data in its caches."""
BUSY_FRAC = 0.25
IDLE_FRAC = 0.1
MOST_LINES = 2
COMPUTES = tuple(phase for phase in BATCH_WORK if phase is not Phase.HOST_TO_DEVICE)
"""Phases of one operator after the other, each of which may have to wait for Python's lock."""
EFFORT = Effort(Horizon.MEDIUM, "less is done under a lock, or in another process", "none")


@rule(id="thread-contention", needs=("steps", "lines"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return a finding where another thread holds training up."""
    lines, step_ns = measured(run.lines), measured(run.step_ns)
    if lines.whole < MIN_SAMPLES:
        return None
    waits = [one for one in lines.of(Phase.FORWARD) if one.waits]
    found = _locked(run, step_ns, lines, waits)
    threads = lines.threads
    if found is not None or threads is None or run.on_gpu or not threads.others:
        return found
    return _outrun(run, step_ns, threads, threads.others[0])


def _locked(
    run: RunResults, step_ns: int, lines: HostLines, waits: Sequence[LineCount]
) -> Finding | None:
    forward, count = run.per_step(Phase.FORWARD), sum(one.count for one in waits)
    if forward is None or not count:
        return None
    low, high = lines.interval(count, Phase.FORWARD)
    cost_ns = round(count / lines.by_phase[Phase.FORWARD.value] * forward.mean_ns)
    if cost_ns < MIN_FRAC * step_ns or not low:
        return None
    saving = Range(
        low=round(LOW_FRAC * low * forward.mean_ns),
        high=round(min(forward.mean_ns, AWAY_FRAC * high * forward.mean_ns)),
    )
    places = tuple(Where.at(one, phase=one.phase) for one in waits[:MOST_LINES])
    others = [] if lines.threads is None else lines.threads.others
    others = [one for one in others if one.file == waits[0].file]
    whom = f"thread {others[0].name!r}" if others else "another thread"
    return Finding(
        severity=grade(saving, step_ns),
        title=f"{waits[0].function} waits {duration(cost_ns)} of each step for {whom}",
        advice="Hold the lock only for the exchange: let the other thread prepare its item first, "
        "and take the lock only to store it. Or pass items through a queue, ahead of time.",
        evidence={"lock_ns": cost_ns, "lock_frac": cost_ns / step_ns, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.8,
        where=(*places, *(_where(one) for one in others[:1])),
    )


def _outrun(run: RunResults, step_ns: int, threads: ThreadUse, other: ThreadLoad) -> Finding | None:
    watched_ns = max(1, threads.watched_ns)
    busy = other.cpu_ns / watched_ns
    idle = 1.0 - (threads.cpu_ns + threads.queued_ns) / watched_ns
    elsewhere = (one.per_step for phase, one in run.phases.items() if phase not in COMPUTES)
    idle -= sum(one.mean_ns for one in elsewhere if one is not None) / step_ns
    if busy < BUSY_FRAC or idle < IDLE_FRAC:
        return None
    idle_ns = round(idle * step_ns)
    # Where cores are few, the two take turns on one as well.
    shared = min(busy, threads.queued_ns / watched_ns)
    high = min(1.0, AWAY_FRAC * (idle + shared))
    saving = Range(low=round(LOW_FRAC * idle_ns), high=round(high * step_ns))
    return Finding(
        severity=grade(saving, step_ns),
        title=f"Training stands still {percent(idle)} of the time beside thread {other.name!r}",
        advice="Move that thread's work to another process, or do it less often: while it computes "
        f"in Python ({percent(busy)} of the time), each operator of the training step has to wait "
        "for its turn.",
        evidence={"idle_frac": idle, "idle_ns": idle_ns, "busy_frac": busy, "step_ns": step_ns},
        saving_ns=saving,
        confidence=0.8,
        where=(_where(other),),
        explains=("host-bound", "small-kernels", "slow-python"),
    )


def _where(thread: ThreadLoad) -> Where:
    name = f"thread {thread.name}"
    return Where.at(thread, name=name) if thread.file else Where(name=name)
