"""The usual advice that a run was measured against and that would gain next to nothing in it."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import BATCH_WORK, Phase

USUAL = {
    "more workers": Phase.DATA_WAIT,
    "pinned memory": Phase.HOST_TO_DEVICE,
    "fused optimizer": Phase.OPTIMIZER_STEP,
    "cheaper gradient clipping": Phase.CLIP_GRADIENTS,
    "less logging": Phase.LOGGING,
    "rarer validation": Phase.VALIDATION,
    "rarer checkpoints": Phase.CHECKPOINT,
}
"""The advice, and the phase that it can shorten at most to nothing."""
NOTHING_FRAC = 0.01


def not_worth_it(results: RunResults) -> dict[str, float]:
    """Return the share of a step that each advice not worth it gains at most.

    A phase counts with its time on the host or on the device, whichever is longer; on a GPU, work
    without device marks is not known.
    """
    if results.steps is None or results.steps.basis != "steady":
        return {}
    marks = results.device_time.phases if results.device_time else {}
    found = {}
    for advice, phase in USUAL.items():
        one = results.per_step(phase)
        known = phase in marks if results.on_gpu else phase is not Phase.HOST_TO_DEVICE
        if one is None or not one.mean_ns or (phase in BATCH_WORK and not known):
            continue
        most = max(one.frac, marks[phase].frac if phase in marks else 0.0)
        if most < NOTHING_FRAC:
            found[advice] = most
    return found


def not_worth_it_line(results: RunResults) -> str:
    """Return the same as one line; empty where no advice is."""
    return ", ".join(f"{name} {frac:.1%}" for name, frac in not_worth_it(results).items())
