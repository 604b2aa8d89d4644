"""Has the optimizer update all parameters in a few calls; results differ by rounding."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.rules.unfused_optimizer import FUSED
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values


def _values(run: RunResults) -> Values:
    used = run.start.model.get("optimizers") or []
    if not used or any(one.get("package") != "torch" for one in used):
        return "its optimizer is none of torch's own"
    if any(one.get("fused") for one in used):
        return "it is fused"
    fused = ["fused"] if all(one["class"] in FUSED for one in used) else []
    # On a GPU that is torch's choice already.
    each = [] if run.on_gpu or any(one.get("foreach") for one in used) else ["foreach"]
    return [*fused, *each] or "torch has no faster form of it"


CHANGE = Change(
    values=_values,
    write=lambda value, run: {"optimizer": {value: True}},
    phases=(Phase.OPTIMIZER_STEP,),
    findings=("unfused-optimizer", "host-bound", "small-kernels"),
)
