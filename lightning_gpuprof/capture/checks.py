"""Checks whether a profiler schedule suits the device and the length of a run."""

import math
from typing import Any

from lightning_gpuprof.adapters.lightning import batch_loop, is_kind, stage_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.schedule import Schedule, too_short


def refuse_device(device_type: str, *, capture_range: bool = False) -> None:
    """Raise ConfigError for a device that cannot be recorded.

    That is MPS, where torch.profiler is unstable, and with `capture_range` any device but a GPU.
    """
    if capture_range and device_type != "cuda":
        raise ConfigError(
            "capture_range=True tells nsys or ncu when to record, but this run trains on "
            f"{device_type}. Train on a GPU, or leave capture_range out: torch.profiler records on "
            "a CPU too."
        )
    if device_type == "mps":
        raise ConfigError(
            "ProfilerSchedule cannot record on Apple's MPS, where torch.profiler is unstable. "
            "Leave ProfilerSchedule out. PhaseTimer and DeferredLoss work on MPS."
        )


def check_length(trainer: Any, schedule: Schedule, context: RunContext, *, explicit: bool) -> None:
    """Say so if a run is too short for a schedule.

    Raises ConfigError if the user has given the schedule and not even its first cycle fits.
    """
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
    """Return the largest number of steps (batches) or epochs that a session can have.

    Early stopping and `max_time` may end the session sooner. None if there is no upper bound. An
    evaluation counts as one epoch.
    """
    if stage_of(trainer) != "fit":
        batches = sum(batch_loop(trainer).max_batches) if unit == "step" else 1
        return math.ceil(batches) if math.isfinite(batches) else None
    per_epoch = trainer.num_training_batches
    epochs, batches = _epochs_left(trainer), _batches_for_max_steps(trainer)
    if unit == "step":
        by_epochs = int(per_epoch) * epochs if math.isfinite(per_epoch * epochs) else math.inf
        length = min(by_epochs, batches)
    elif math.isfinite(per_epoch) and per_epoch:
        length = min(epochs, batches / per_epoch)
    else:
        length = epochs
    return math.ceil(length) if math.isfinite(length) else None


def _epochs_left(trainer: Any) -> float:
    if trainer.max_epochs is None or trainer.max_epochs < 0:
        return math.inf
    return max(0, int(trainer.max_epochs) - int(trainer.current_epoch))


def _batches_for_max_steps(trainer: Any) -> float:
    if trainer.max_steps < 0 or not trainer.lightning_module.automatic_optimization:
        return math.inf  # with manual optimization a batch can have any number of optimizer steps
    if any(is_kind(callback, "GradientAccumulationScheduler") for callback in trainer.callbacks):
        return math.inf
    left = max(0, int(trainer.max_steps) - int(trainer.global_step))
    return left * int(trainer.accumulate_grad_batches)
