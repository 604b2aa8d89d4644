"""Lets the optimizer update all parameters in a few calls. Results differ by rounding."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.findings.rules.unfused_optimizer import FUSED
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import Change, Values


def _values(run: RunResults) -> Values:
    optimizers = settings_of(run.start).optimizers
    if not optimizers or any(optimizer.package != "torch" for optimizer in optimizers):
        return "its optimizer is not one of torch's own"
    if any(optimizer.fused for optimizer in optimizers):
        return "it is fused already"
    faster = []
    if all(optimizer.name in FUSED for optimizer in optimizers):
        faster.append("fused")
    # On a GPU torch chooses "foreach" by itself.
    if not run.on_gpu and not any(optimizer.foreach for optimizer in optimizers):
        faster.append("foreach")
    return faster or "torch has no faster implementation of it"


CHANGE = Change(
    values=_values,
    write=lambda implementation, run: ChangedSettings(optimizer={implementation: True}),
    phases=(Phase.OPTIMIZER_STEP,),
    findings=("unfused-optimizer", "host-bound", "small-kernels"),
)
