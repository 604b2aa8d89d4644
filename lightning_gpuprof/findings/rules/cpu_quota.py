"""A container's CPU quota makes the run wait, again and again.

## What it measures
`throttled_frac`: of the kernel's scheduling periods (100 ms as a rule) in which the run's control
group ran, the share in which it had used up its quota and was made to wait for the next, from the
beginning of training to its end (`cpu.stat`: `nr_throttled` of `nr_periods`).

## Why it matters
Docker (`--cpus`) and Kubernetes (`limits.cpu`) bound the time on cores, and not which cores: torch
sees all of the machine's and starts a thread for each. These use the quota up in a part of each
period, and then all of them stand still, the one that trains and those that load data.

## What to do
No more threads and workers than the quota has cores: `torch.set_num_threads`, `OMP_NUM_THREADS`,
`num_workers`. Or a higher limit for the container.

## Thresholds
`MIN_FRAC`: a fifth, as `CRITICAL_FRAC` in `findings/grade.py`: seldom throttled is as it should be
near a limit. `MIN_PERIODS`: fewer are less than five seconds. How much time is lost is not known
(the kernel adds up what each core's queue waits), so none is claimed.
"""

from math import floor

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Range, Severity
from lightning_gpuprof.records.cpu_quota import cpu_quota_noted
from lightning_gpuprof.units import percent

ID = "cpu-quota"
EFFORT = Effort(Horizon.QUICK, "a number of threads, or a container's limit", "none to the model")
MIN_FRAC = CRITICAL_FRAC
MIN_PERIODS = 50


def evaluate(run: RunResults) -> Finding | None:
    """Return a fact where the quota was used up in many periods."""
    quota = cpu_quota_noted(run.notes)
    if quota is None or quota.periods < MIN_PERIODS:
        return None
    frac = quota.throttled / quota.periods
    if frac < MIN_FRAC:
        return None
    has = ""
    evidence: dict[str, int | float] = {
        "throttled_frac": frac,
        "periods_count": quota.periods,
        "quota_cores_count": quota.cores,
    }
    if run.start.torch_threads is not None:
        evidence["threads_count"] = run.start.torch_threads
        has = f" (torch has {run.start.torch_threads} threads)"
    return Finding(
        id=ID,
        severity=Severity.WARNING,
        title=f"The container's quota of {quota.cores:g} cores made the run wait in "
        f"{percent(frac)} of the kernel's periods",
        advice=f"Give the container more cores, or use no more threads and workers than it may"
        f"{has}.",
        evidence=evidence,
        saving_ns=Range(low=0, high=0),
        confidence=0.9,
        change=_change(run, max(1, floor(quota.cores))),
    )


def _change(run: RunResults, cores: int) -> str | None:
    """Return what uses fewer cores; None where neither threads nor workers are too many."""
    threads, loader = run.start.torch_threads, run.start.loader
    if threads is None or threads > cores:
        return f"torch.set_num_threads({cores})  # and num_workers, OMP_NUM_THREADS to fit"
    if loader is not None and (loader.num_workers or 0) > cores - threads:
        return f"DataLoader(..., num_workers={cores - threads})"
    return None
