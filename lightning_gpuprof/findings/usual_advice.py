"""The usual advice for training loops that would gain next to nothing in a run."""

from collections.abc import Sequence
from typing import NamedTuple

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.findings.model import Finding
from lightning_gpuprof.records.phases import BATCH_WORK, Phase


class UsualAdvice(NamedTuple):
    """Advice that is often given, the phase that it shortens, and the finding that would say it."""

    advice: str
    phase: Phase
    finding: str


USUAL = (
    UsualAdvice("more workers", Phase.DATA_WAIT, "data-wait"),
    UsualAdvice("pinned memory", Phase.HOST_TO_DEVICE, "slow-host-to-device-copy"),
    UsualAdvice("fused optimizer", Phase.OPTIMIZER_STEP, "unfused-optimizer"),
    UsualAdvice("cheaper gradient clipping", Phase.CLIP_GRADIENTS, "slow-python"),
    UsualAdvice("less logging", Phase.LOGGING, "slow-logging"),
    UsualAdvice("rarer validation", Phase.VALIDATION, "frequent-validation"),
    UsualAdvice("rarer checkpoints", Phase.CHECKPOINT, "slow-checkpoint"),
)
NOTHING_FRAC = 0.01
"""Advice that would gain less than this share of a step is not worth following."""


def not_worth_it(run: RunResults, findings: Sequence[Finding]) -> dict[str, float]:
    """Return advice that is not worth following in a run, and the most that each would gain.

    The gain is a share of the step: the whole phase, on the host or on the device, whichever is
    longer. On a GPU, a phase without device marks is left out, because its device time is not
    known. So is advice that a finding gives, which may count time that no steady step has.
    """
    if run.steps is None or run.steps.basis != "steady":
        return {}
    proposed = {finding.id for finding in findings if finding.is_change}
    marks = run.device.time.phases if run.device.time else {}
    gains = {}
    for usual in USUAL:
        per_step = run.per_step(usual.phase)
        if per_step is None or not per_step.mean_ns or usual.finding in proposed:
            continue
        marked = usual.phase in marks if run.on_gpu else usual.phase is not Phase.HOST_TO_DEVICE
        if usual.phase in BATCH_WORK and not marked:
            continue
        on_device = marks[usual.phase].frac if usual.phase in marks else 0.0
        gain = max(per_step.frac, on_device)
        if gain < NOTHING_FRAC:
            gains[usual.advice] = gain
    return gains
