"""Makes batches in more or fewer worker processes, which persist from epoch to epoch.

A dataset that draws random numbers draws different ones, so that losses differ by chance.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.question_figures import suggested_workers
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import NO_LOADER, Change, Values
from lightning_gpuprof.units import percent

MIN_WAIT_FRAC = 0.01
"""Without workers, and with less wait for data than this share of a step, no workers are tried."""


def _values(run: RunResults) -> Values:
    loader, cores, wait = run.start.loader, run.cores or 1, run.per_step(Phase.DATA_WAIT)
    if loader is None or loader.num_workers is None:
        return NO_LOADER
    if loader.shares:
        return f"the data set reads {loader.shares}, of which every worker would have a copy"
    workers = loader.num_workers
    if workers == 0 and (wait is None or wait.frac < MIN_WAIT_FRAC):
        return f"the wait for data is {percent(wait.frac if wait else 0.0)} of a step"
    suggested = suggested_workers(run) or 0
    counts = {0, suggested, cores, *(2**power for power in range(8) if 2**power <= cores)}
    if workers == 0 or loader.persistent_workers:
        # Otherwise the same number of workers is a change too: they become persistent.
        counts.discard(workers)
    return sorted(counts, key=lambda count: (count != suggested, count))


CHANGE = Change(
    values=_values,
    write=lambda count, run: ChangedSettings(
        data_loader={"num_workers": count, "persistent_workers": count > 0}
    ),
    findings=("data-wait", "worker-startup", "cpu-quota"),
    redraws=True,
)
