"""A container's CPU quota makes the run wait again and again.

## Symptom
In a fifth of the kernel's scheduling periods or more, the container had used up its quota.

## Why
Docker (`--cpus`) and Kubernetes (`limits.cpu`) limit the time on cores, not the number of cores.
torch starts a thread for every core of the machine. These threads use up the quota early in a
period, and then all of them stand still.

## Fix
Use no more threads and workers than the quota has cores, or raise the limit.

```python
DataLoader(data, num_workers=8)  # before, with a quota of 4 cores
torch.set_num_threads(2)  # after
DataLoader(data, num_workers=2)
```

## How it is measured
`throttled_frac` is `nr_throttled` out of `nr_periods` in `cpu.stat`, from the start of training to
its end.

## Limits
The rule is silent with fewer than 50 periods (5 s). How much time is lost is not known, so none is
claimed.
"""

from math import floor

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.grade import CRITICAL_FRAC
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Severity
from lightning_gpuprof.findings.rule import evidence_of, rule
from lightning_gpuprof.units import percent

MIN_PERIODS = 50
EFFORT = Effort(Horizon.QUICK, "a number of threads or workers", "none to the model")
LIMIT_EFFORT = Effort(Horizon.QUICK, "the container's limit", "other programs have fewer cores")


@rule(id="cpu-quota", effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about a quota that was used up in many periods."""
    quota = run.facts.cpu_quota
    if quota is None or quota.periods < MIN_PERIODS:
        return None
    frac, threads = quota.throttled / quota.periods, run.start.torch_threads
    if frac < CRITICAL_FRAC:
        return None
    change, setting = _change(run, max(1, floor(quota.cores)))
    has = "" if threads is None else f" (torch has {threads} threads)"
    return Finding(
        severity=Severity.WARNING,
        title=f"A quota of {quota.cores:g} cores was used up in {percent(frac)} of the periods",
        advice="Give the container more cores, or start no more threads and workers than its "
        f"quota has cores{has}.",
        evidence=evidence_of(
            throttled_frac=frac,
            periods_count=quota.periods,
            quota_cores_count=quota.cores,
            threads_count=threads,
        ),
        confidence=0.9,
        change=change,
        setting=setting,
        effort=EFFORT if change is not None else LIMIT_EFFORT,
    )


def _change(run: RunResults, cores: int) -> tuple[str | None, str | None]:
    """Return the change that uses fewer cores, as code and as a setting.

    None if neither threads nor workers are too many.
    """
    threads, loader = run.start.torch_threads, run.start.loader
    if threads is None or threads > cores:
        code = f"torch.set_num_threads({cores})  # and num_workers, OMP_NUM_THREADS to fit"
        return code, f"torch_threads={cores}"
    if loader is not None and (loader.num_workers or 0) > cores - threads:
        workers = cores - threads
        return f"DataLoader(..., num_workers={workers})", f"num_workers={workers}"
    return None, None
