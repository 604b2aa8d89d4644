"""Torch has more threads than the process has cores.

## What it measures
Training on a CPU: torch's threads, the cores that the process may use, and a trial at the end of
the first batch: a matrix product and a sum with the threads that are set (`as_set_ns`), and with
one for each core (`per_core_ns`). Where `OMP_NUM_THREADS` or `MKL_NUM_THREADS` is set nothing is
tried: a trial would change how MKL threads from then on.

## Why it matters
An operator is divided among all threads and waits for the last one. With more threads than cores
some of them wait for a core in every operator, and those that wait spin.

## What to do
Leave torch's default, or set the number of cores (`torch.set_num_threads`):
fewer where workers of a `DataLoader` or several ranks need cores too.

## Thresholds
`MIN_RATIO`: what the trial differs by anyway. Operators of some length (`savings/host_work.py`) are
taken to gain as the trial did, `LOW_FRAC` of it at least, and forward and backward pass at most and
a fifth more (docs/adr/0031); without a trace nothing is the least. Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.analysis.savings.host_work import COMPUTE, host_work
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.debugging import ThreadTrial, thread_trial

ID = "too-many-threads"
EFFORT = Effort(Horizon.QUICK, "one line", "results may differ in the last digits")
MIN_RATIO = 1.2
LOW_FRAC = 0.5


def evaluate(run: RunResults) -> Finding | None:
    """Return a finding where threads were tried and found too many."""
    one = thread_trial(run.notes)
    if run.step_ns is None or one is None or one.as_set_ns < MIN_RATIO * one.per_core_ns:
        return None
    return _finding(run, run.step_ns, one)


def _finding(run: RunResults, step_ns: int, one: ThreadTrial) -> Finding:
    gain = 1 - one.per_core_ns / one.as_set_ns
    work = host_work(run)
    spent = [stats for phase in COMPUTE if (stats := run.per_step(phase)) is not None]
    _, high = around(round(gain * sum(stats.mean_ns for stats in spent)))
    low = round(LOW_FRAC * gain * work.heavy_ns) if work is not None else 0
    saving = Range(low=min(low, high, step_ns), high=min(high, step_ns))
    place = one.place
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Torch has {one.threads} threads on {one.cores} cores: a matrix product takes "
        f"{one.as_set_ns / one.per_core_ns:.1f} times as long as with {one.cores}",
        advice=f"Let it have {one.cores}, or fewer where workers or other ranks need cores too.",
        evidence={
            "threads_count": one.threads,
            "cores_count": one.cores,
            "as_set_ns": one.as_set_ns,
            "per_core_ns": one.per_core_ns,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        where=(
            Where(name="torch.set_num_threads")
            if place is None
            else Where(file=place.file, line=place.line, source=place.source),
        ),
        change=f"torch.set_num_threads({one.cores})",
    )
