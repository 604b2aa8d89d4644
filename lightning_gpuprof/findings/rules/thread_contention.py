"""Another thread of the program holds the training thread up: by a lock, or by Python's own.

## What it measures
From samples of the training thread's stack: the share of the forward pass spent at lines that take
a lock (`with self.lock:`) or wait for a queue, event or thread. From the kernel's account of the
threads' times while samples were taken: how much another Python thread computed, and how long the
training thread neither ran nor was ready to (`idle_frac`).

## Why it matters
One thread at a time runs Python. Torch lets go of it in each operator and has to ask for it back
after each, which a thread that computes in Python grants every 5 ms only: a step of a hundred small
operators becomes a hundred waits. A lock that is held while something slow is done makes the other
wait as long.

## What to do
Hold a lock for the exchange alone: make the item first, then take the lock to put it down. Let
work in Python run in another process (`multiprocessing`, a DataLoader worker), or seldom; numpy and
torch let go of Python's lock while they compute.

## Thresholds
`MIN_SAMPLES`, `MIN_FRAC`: as in slow-python. `LOW_FRAC` of a wait goes at least: the exchange
itself stays, and a little standing still is every run's. `AWAY_FRAC`: a thread that comes back to
its core finds others' data in its caches, as much as goes with other costs (docs/adr/0031).
`BUSY_FRAC`: a thread that computes for a quarter of the time is no mere helper. `IDLE_FRAC`: the
training thread is off its core for a moment in every run (the logger's file, the sampler itself).
Only what stands still in `COMPUTES` is counted: loading, loggers, checkpoints, validation,
callbacks and hooks wait for files and servers as well, and have findings that tell their time
whatever they wait for (a thread that only writes for a callback goes with the callback). How much
of these phases stood still is not known, so all of it is taken to have: `idle_frac` is the least.
Where they compute for a good part of the step (a DataLoader without workers), contention in the
others may go untold. On a GPU the host waits for the device too, so nothing is said there of
threads that are only busy. Severity: the common scale (`findings/grade.py`).
"""

from collections.abc import Sequence

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount, host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.lines import ThreadLoad, ThreadUse
from lightning_gpuprof.records.phases import BATCH_WORK, Phase
from lightning_gpuprof.units import duration, percent

ID = "thread-contention"
EFFORT = Effort(Horizon.MEDIUM, "less is done under a lock, or in another process", "none")
MIN_SAMPLES = 100
MIN_FRAC = 0.05
LOW_FRAC, AWAY_FRAC = 0.7, 1.2
BUSY_FRAC = 0.25
IDLE_FRAC = 0.1
MOST_LINES = 2
EXPLAINS = ("host-bound", "small-kernels", "slow-python")
"""Each operator waits until the other thread lets go of Python's lock."""
COMPUTES = tuple(phase for phase in BATCH_WORK if phase is not Phase.HOST_TO_DEVICE)
"""Phases of one operator after the other, each of which may have to wait for Python's lock."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where another thread holds training up."""
    lines = host_lines(run.notes)
    if lines is None or run.step_ns is None:
        return Abstained(ID, "no sample of the training thread's stack was taken")
    if lines.whole < MIN_SAMPLES:
        return Abstained(ID, f"{lines.whole} samples of the stack are too few to say")
    waits = [one for one in lines.of(Phase.FORWARD) if one.waits]
    found = _locked(run, run.step_ns, lines, waits)
    if found is not None:
        return found
    if lines.threads is None:
        return Abstained(ID, "the system keeps no account of threads' times, and no line waits")
    if run.on_gpu or not lines.threads.others:
        return None
    return _outrun(run, run.step_ns, lines.threads, lines.threads.others[0])


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
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"{duration(cost_ns)} of each step ({percent(cost_ns / step_ns)}) is spent in "
        f"{waits[0].function} waiting for "
        + (f"thread {others[0].name!r}" if others else "another thread"),
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
        id=ID,
        severity=grade(saving, step_ns),
        title=f"The training thread stands still for {percent(idle)} of the time while thread "
        f"{other.name!r} computes in Python ({percent(busy)} of the time)",
        advice="Move that thread's work to another process, or do it less often: while it computes "
        "in Python, each operator of the training step has to wait for its turn.",
        evidence={
            "idle_frac": idle,
            "idle_ns": idle_ns,
            "busy_frac": busy,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=(_where(other),),
        explains=EXPLAINS,
    )


def _where(thread: ThreadLoad) -> Where:
    name = f"thread {thread.name}"
    return Where.at(thread, name=name) if thread.file else Where(name=name)
