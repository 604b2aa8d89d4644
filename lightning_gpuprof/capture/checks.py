"""Why a schedule may give no trace: the device, too short a fit, another profiler."""

import math
from typing import Any

from lightning_gpuprof.adapters.lightning import batch_loop, is_kind, stage_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.schedule import Schedule, too_short


def refuse_device(device_type: str, *, capture_range: bool = False) -> None:
    """Raise ConfigError on MPS, which torch.profiler must not record, or for want of a GPU."""
    if capture_range and device_type != "cuda":
        raise ConfigError(
            "capture_range=True tells nsys or ncu when to record, but this run trains on "
            f"{device_type}. Train on a GPU, or leave it out: torch.profiler records everywhere."
        )
    if device_type == "mps":
        raise ConfigError(
            "ProfilerSchedule cannot record on Apple's MPS, where torch.profiler is unstable. "
            "Leave it out: phase timers and deferred loss work there."
        )


def check_length(trainer: Any, schedule: Schedule, context: RunContext, *, explicit: bool) -> None:
    """Say where a run is too short for a schedule; raise where the user's own fits no cycle."""
    length = fit_length(trainer, schedule.unit)
    if length is None or length >= schedule.needed():
        return
    message = too_short(schedule, length)
    if schedule.fitting(length):
        context.warn(message)
    elif explicit and context.stage == "fit" and not trainer.fast_dev_run:
        raise ConfigError(message)
    else:
        context.note("no-trace", length, message)


def fit_length(trainer: Any, unit: str) -> int | None:
    """Return the most steps (batches) or epochs that a session can run, from its start on.

    An upper bound, since early stopping and `max_time` may end it sooner; None where none is known.
    An evaluation is one epoch.
    """
    if stage_of(trainer) != "fit":
        batches = sum(batch_loop(trainer).max_batches) if unit == "step" else 1
        return math.ceil(batches) if math.isfinite(batches) else None
    per_epoch = trainer.num_training_batches
    epochs, batches = _epochs_left(trainer), _batches_for_max_steps(trainer)
    if unit == "step":
        by_epochs = int(per_epoch) * epochs if math.isfinite(per_epoch * epochs) else math.inf
        most = min(by_epochs, batches)
    elif math.isfinite(per_epoch) and per_epoch:
        most = min(epochs, batches / per_epoch)
    else:
        most = epochs
    return math.ceil(most) if math.isfinite(most) else None


def _epochs_left(trainer: Any) -> float:
    if trainer.max_epochs is None or trainer.max_epochs < 0:
        return math.inf
    return max(0, int(trainer.max_epochs) - int(trainer.current_epoch))


def _batches_for_max_steps(trainer: Any) -> float:
    if trainer.max_steps < 0 or not trainer.lightning_module.automatic_optimization:
        return math.inf  # by hand, a batch may step any number of optimizers
    if any(is_kind(one, "GradientAccumulationScheduler") for one in trainer.callbacks):
        return math.inf
    left = max(0, int(trainer.max_steps) - int(trainer.global_step))
    return left * int(trainer.accumulate_grad_batches)
