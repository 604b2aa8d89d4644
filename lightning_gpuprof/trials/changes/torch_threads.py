"""Computes on the CPU with more or fewer threads. Results differ by rounding."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    if run.on_gpu:
        return "the model runs on the GPU"
    cores, threads = run.cores or 1, run.start.torch_threads
    counts = {cores, *(2**power for power in range(8) if 2**power < cores)} - {threads}
    return sorted(counts, reverse=True) or "there is a single core, and a single thread uses it"


CHANGE = Change(
    values=_values,
    write=lambda count, run: ChangedSettings(lines=(f"torch.set_num_threads({count})",)),
    phases=(*PASSES, Phase.OPTIMIZER_STEP),
    findings=("thread-contention", "cpu-quota"),
)
