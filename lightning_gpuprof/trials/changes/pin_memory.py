"""Copies batches to the GPU from pinned memory. The results of training stay the same."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import NO_LOADER, Change, Values


def _values(run: RunResults) -> Values:
    if not run.on_gpu:
        return "there is no GPU to copy batches to"
    if run.start.loader is None or run.start.loader.pin_memory is None:
        return NO_LOADER
    return "it is on already" if run.start.loader.pin_memory else [True]


CHANGE = Change(
    values=_values,
    place="DataLoader",
    phases=(Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    findings=("slow-host-to-device-copy",),
)
