"""Torch has more threads than the process has cores.

## What it measures
Training on a CPU: torch's threads, the cores that the process may use, and a trial at the end of
the first batch: a matrix product and a sum with the threads that are set (`as_set_ns`), and with
one for each core (`per_core_ns`). Where `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set nothing is
tried: a trial would change how MKL threads from then on. Then it is the kernel's account of the
training thread that tells: how long it was ready to run, and waited for a core (`queued_frac`).

## Why it matters
An operator is divided among all threads and waits for the last one. With more threads than cores
some of them wait for a core in every operator, and those that wait spin.

## What to do
Leave torch's default, or set the number of cores (`torch.set_num_threads`):
fewer where workers of a `DataLoader` or several ranks need cores too.

## Thresholds
`MIN_RATIO`: what the trial differs by anyway. Operators of some length (`savings/host_work.py`) are
taken to gain as the trial did, `LOW_FRAC` of it at least, and forward and backward pass at most and
a fifth more (docs/adr/0031); without a trace nothing is the least. `QUEUED_FRAC`: a thread on a
machine of its own hardly waits for a core, and on a busy one for less than it runs. Of what it
waited `LOW_FRAC` goes at least, for others on the machine make it wait too; and all of forward and
backward pass at most, as the threads that it waits for in each operator stand in the queue, too.
Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.host_lines import host_lines
from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, host_work
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.debugging import ThreadTrial, thread_trial
from lightning_gpuprof.units import percent

ID = "too-many-threads"
EFFORT = Effort(Horizon.QUICK, "one line", "results may differ in the last digits")
ADVICE = "Let it have {cores}, or fewer where workers or other ranks need cores too."
MIN_RATIO = 1.2
LOW_FRAC = 0.5
QUEUED_FRAC = 0.3


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where threads are too many, by a trial or by the training thread's waits."""
    if run.step_ns is None:
        return Abstained(ID, "no step was recorded")
    one = thread_trial(run.notes)
    if one is not None:
        return _finding(run, run.step_ns, one) if _is_slower(one) else None
    threads, cores = run.start.torch_threads, run.cores
    if run.on_gpu or threads is None or cores is None or threads <= cores:
        return None
    lines = host_lines(run.notes)
    if lines is None or lines.threads is None:
        return Abstained(
            ID,
            f"{threads} threads on {cores} cores were not tried, as the environment sets their "
            "number, and the system keeps no account of threads' times",
        )
    queued_frac = lines.threads.queued_ns / max(1, lines.threads.watched_ns)
    if queued_frac < QUEUED_FRAC:
        return None
    return _queued(run, run.step_ns, threads, cores, queued_frac)


def _is_slower(one: ThreadTrial) -> bool:
    return one.as_set_ns >= MIN_RATIO * one.per_core_ns


def _queued(run: RunResults, step_ns: int, threads: int, cores: int, queued_frac: float) -> Finding:
    computing_ns = _computing_ns(run)
    low, high = round(LOW_FRAC * queued_frac * computing_ns), computing_ns
    saving = Range(low=min(low, step_ns), high=min(high, step_ns))
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Torch has {threads} threads on {cores} cores: the training thread waits for a core "
        f"{percent(queued_frac)} of the time",
        advice=ADVICE.format(cores=cores),
        evidence={
            "threads_count": threads,
            "cores_count": cores,
            "queued_frac": queued_frac,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.6,
        where=(Where(name="torch.set_num_threads"),),
        change=f"torch.set_num_threads({cores})",
    )


def _computing_ns(run: RunResults) -> int:
    spent = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    return round(sum(stats.mean_ns for stats in spent))


def _finding(run: RunResults, step_ns: int, one: ThreadTrial) -> Finding:
    gain = 1 - one.per_core_ns / one.as_set_ns
    work = host_work(run)
    _, high = around(round(gain * _computing_ns(run)))
    low = round(LOW_FRAC * gain * work.heavy_ns) if work is not None else 0
    saving = Range(low=min(low, high, step_ns), high=min(high, step_ns))
    place = one.place
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Torch has {one.threads} threads on {one.cores} cores: a matrix product takes "
        f"{one.as_set_ns / one.per_core_ns:.1f} times as long as with {one.cores}",
        advice=ADVICE.format(cores=one.cores),
        evidence={
            "threads_count": one.threads,
            "cores_count": one.cores,
            "as_set_ns": one.as_set_ns,
            "per_core_ns": one.per_core_ns,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=(Where(name="torch.set_num_threads") if place is None else Where.at(place),),
        change=f"torch.set_num_threads({one.cores})",
    )
