"""Lets every worker process prepare more batches ahead. The results of training stay the same."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values


def _values(run: RunResults) -> Values:
    loader = run.start.loader
    if loader is None or not loader.num_workers:
        return "there are no workers that could prepare batches ahead"
    return [4 * (loader.prefetch_factor or 2)]


CHANGE = Change(
    values=_values,
    place="DataLoader",
    phases=(Phase.DATA_WAIT,),
    findings=("data-wait", "step-time-jitter"),
)
