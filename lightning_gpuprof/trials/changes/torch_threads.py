"""Computes on the CPU with more or fewer threads; results differ by rounding."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    cores, now = run.cores or 1, run.start.torch_threads
    if run.on_gpu:
        return "the GPU computes"
    ladder = {cores, *(2**power for power in range(8) if 2**power < cores)} - {now}
    return sorted(ladder, reverse=True) or f"there is one core, and {now} thread"


CHANGE = Change(
    values=_values,
    write=lambda value, run: {"lines": [f"torch.set_num_threads({value})"]},
    phases=(*PASSES, Phase.OPTIMIZER_STEP),
    findings=("thread-contention", "cpu-quota"),
)
