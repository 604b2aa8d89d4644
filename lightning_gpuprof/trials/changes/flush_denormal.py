"""Lets the CPU take denormal numbers, which are below 1e-38 in float32, for 0."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    if run.on_gpu:
        return "the model runs on the GPU"
    if run.start.torch_settings.get("flush_denormal") is True:
        return "it is on"
    return [True]


CHANGE = Change(
    values=_values,
    write=lambda flush, run: ChangedSettings(lines=(f"torch.set_flush_denormal({flush})",)),
    phases=(*PASSES, Phase.OPTIMIZER_STEP),
    findings=("slow-operators",),
    alters="numbers below 1e-38 become 0",
)
