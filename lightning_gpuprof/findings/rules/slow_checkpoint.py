"""Checkpoints take a noticeable share of the training time.

## What it measures
`checkpoint_ns`: mean time per steady step in checkpoint callbacks and in saving, on the host clock,
spread over all steps; `per_checkpoint_ns`: what one of them takes.

## Why it matters
A checkpoint gathers the whole state and writes it in the training loop; training waits for the
disk.

## What to do
Save less often, or by time (`train_time_interval`); save weights alone where no resume is needed
(`save_weights_only=True`); write in the background (`AsyncCheckpointIO`).

## Thresholds
The saving is that of the interval proposed: a fifth as often at least, and so seldom that
checkpoints take `TARGET_FRAC` of the time, if the run is long enough; at least with each at the
median (some wait for a disk that is behind), at most at the mean. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.hidden import around
from lightning_gpuprof.findings.grade import grade, seldom
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "slow-checkpoint"
EFFORT = Effort(Horizon.QUICK, "one argument of ModelCheckpoint", "a crash loses more steps")
TARGET_FRAC = 0.01
"""The interval proposed keeps checkpoints at about this share of the time."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where saving costs time."""
    mean_ns = None if run.every is None else run.every.mean_ns(Phase.CHECKPOINT)
    step_ns = run.step_ns
    if mean_ns is None or step_ns is None or run.every is None or run.steps is None:
        return Abstained(ID, "no step's checkpoints were measured")
    if not 0 < mean_ns < step_ns:
        return None
    parts = [part for part in run.parts_of(Phase.CHECKPOINT) if part.per_step is not None]
    steps, saves = run.every.steps, run.every.flagged.get("checkpoint", 0)
    each_ns = mean_ns * steps // max(1, saves)
    plain_ns = TARGET_FRAC * (step_ns - mean_ns)
    every = seldom(steps, saves, each_ns / plain_ns)
    if run.status == "finished" and every > run.steps.ran:
        # A run of this length would never save: a fifth as often is still within it.
        every = seldom(steps, saves, 0.0)
    # Of the change proposed: as many are left as the new interval has.
    gone_frac = 1 - steps / max(1, saves) / every
    most_ns = round(mean_ns * gone_frac)
    # Some saves wait for the disk to catch up, which fewer need not do, or not so many.
    usual_ns = round((run.usual_save_ns or each_ns) * saves / max(1, steps) * gone_frac)
    saving = Range(low=around(min(usual_ns, most_ns))[0], high=around(most_ns, step_ns)[1])
    name = parts[0].name if parts else "ModelCheckpoint"
    return Finding(
        id=ID,
        severity=grade(saving, step_ns),
        title=f"Checkpoints take {duration(mean_ns)} of each step on average "
        f"({percent(mean_ns / step_ns)}), {duration(each_ns)} each",
        advice=f"Save every {every:,} steps or by time, in the background where saving must be "
        "frequent, and weights alone where no resume is needed.",
        evidence={
            "checkpoint_ns": mean_ns,
            "checkpoint_frac": mean_ns / step_ns,
            "per_checkpoint_ns": each_ns,
            "checkpoints_count": saves,
            "step_ns": step_ns,
        },
        saving_ns=saving,
        confidence=0.9,
        where=(Where(phase=Phase.CHECKPOINT.value, name=name),),
        change=f"ModelCheckpoint(..., every_n_train_steps={every})",
    )
