"""Makes batches in more or fewer worker processes, which stay from epoch to epoch.

A dataset that draws random numbers draws others: losses then differ by chance.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.question_figures import suggested_workers
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import NO_LOADER, Change, Values

LITTLE_FRAC = 0.01


def _values(run: RunResults) -> Values:
    loader, cores, wait = run.start.loader, run.cores or 1, run.per_step(Phase.DATA_WAIT)
    if loader is None or loader.num_workers is None:
        return NO_LOADER
    if loader.shares:
        return f"the data set reads {loader.shares}, of which each worker would have a copy"
    now = loader.num_workers
    if not now and (wait is None or wait.frac < LITTLE_FRAC):
        return f"the wait for data is {wait.frac if wait else 0.0:.1%} of a step"
    suggested = suggested_workers(run) or 0
    ladder = {0, suggested, cores, *(2**power for power in range(8) if 2**power <= cores)}
    if now == 0 or loader.persistent_workers:
        ladder.discard(now)  # else as many that stay from epoch to epoch are a change
    return sorted(ladder, key=lambda count: (count != suggested, count))


CHANGE = Change(
    values=_values,
    write=lambda count, run: {
        "DataLoader": {"num_workers": count, "persistent_workers": count > 0}
    },
    findings=("data-wait", "worker-startup", "cpu-quota"),
    redraws=True,
)
