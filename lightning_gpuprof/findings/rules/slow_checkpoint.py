"""Checkpoints take a noticeable share of the training time.

## Symptom
The time of saving checkpoints, spread over all steps, is a noticeable part of the step.

## Why
Training stands still while a checkpoint gathers the whole state and writes it.

## Fix
```python
ModelCheckpoint(every_n_train_steps=10)  # before
ModelCheckpoint(every_n_train_steps=500)  # after; or train_time_interval, save_weights_only
```

## How it is measured
`checkpoint_ns` is the time per step and `per_checkpoint_ns` the time per save. The saving is that
of the proposed interval: a fifth as often or less, and about 1% of the time.

## Limits
Part of a save may be waiting for a slow disk, which saving less often need not make shorter.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.findings.epoch_cost import of_run
from lightning_gpuprof.findings.grade import FEWER, seldom
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range, When
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration

TARGET_FRAC = 0.01
"""With the proposed interval, checkpoints take about this share of the time."""
REST = (
    "or by time (train_time_interval). Save in the background if it must be frequent, and only "
    "weights if you need not resume."
)
EFFORT = Effort(Horizon.QUICK, "one argument of ModelCheckpoint", "a crash loses more steps")


@rule(id="slow-checkpoint", needs=("training", "steps"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about the time of saving checkpoints."""
    mean_ns = None if run.every is None else run.every.mean_ns(Phase.CHECKPOINT)
    if not mean_ns or run.every is None or run.steps is None:
        return None
    saves = run.every.flagged.get("checkpoint", 0)
    if not saves:
        return None
    each_ns = mean_ns * run.every.steps // saves
    gone_frac, advice, change = _less_often(run, mean_ns, saves)
    if gone_frac == 0:
        return None
    epochs = measured(run.steps).epochs
    lost = without_serial_work(
        run,
        Phase.CHECKPOINT,
        each_ns,
        run.every.steps / saves,
        gone_frac=(gone_frac, gone_frac),
        on_device=True,
        amid_epochs=epochs is None or saves > epochs,
    )
    parts = [part for part in run.parts_of(Phase.CHECKPOINT) if part.per_step is not None]
    return Finding(
        title=f"Checkpoints take {duration(each_ns)} each "
        f"({of_run(run, mean_ns * run.every.steps)})",
        advice=advice,
        evidence={
            "checkpoint_ns": mean_ns,
            "per_checkpoint_ns": each_ns,
            "checkpoints_count": saves,
        },
        saving_ns=Range(lost.low_ns, lost.high_ns),
        cause_ns=Range(mean_ns, mean_ns),
        confidence=0.9,
        places=(
            Place(phase=Phase.CHECKPOINT.value, name=parts[0].name if parts else "ModelCheckpoint"),
        ),
        change=change,
        when=When.ALSO_BETWEEN,
    )


def _less_often(run: RunResults, mean_ns: int, saves: int) -> tuple[float, str, str]:
    """Return the share of the cost that saving less often saves, the advice and the change."""
    ran, epochs = measured(run.steps).ran, measured(run.steps).epochs
    steps, inside = measured(run.every).steps, run.per_step(Phase.CHECKPOINT)
    plain_ns = max(1, measured(run.step_ns) - (inside.mean_ns if inside else 0))
    every = seldom(steps, saves, mean_ns * steps / saves / (TARGET_FRAC * plain_ns))
    finished = run.status == "finished"
    if finished and every > ran:
        # In a run of this length that interval would never save: a fifth as often, or once, does.
        every = min(seldom(steps, saves, 0.0), ran)
    often, setting = f"{every:,} steps", f"every_n_train_steps={every}"
    left = steps / saves / every
    if epochs is not None and saves <= epochs:
        apart = max(FEWER, round(every * saves / steps))
        apart_epochs, left = apart * max(1, round(epochs / saves)), 1 / apart
        often, setting = f"{apart_epochs:,} epochs", f"every_n_epochs={apart_epochs}"
        if finished and apart_epochs > epochs:  # otherwise the run would end without a checkpoint
            setting += ", save_last=True"
    gone = min(1 - left, 1 - 1 / saves if finished else 1.0)
    return gone, f"Save every {often} {REST}", f"ModelCheckpoint(..., {setting})"
