"""How many batches and epochs a fit can run at most, where that is known."""

import math
from typing import Any

from lightning_gpuprof.callbacks._lightning import Trainer, is_kind


def fit_length(trainer: Trainer, unit: str) -> int | None:
    """Return the most steps (batches) or epochs that this fit can run from here on.

    Args:
        trainer: From `on_train_start` on, when the number of batches is known.
        unit: "step" or "epoch".

    Returns:
        An upper bound, since early stopping and `max_time` may end a fit sooner; None where
        there is none.
    """
    per_epoch = trainer.num_training_batches
    epochs = _epochs_left(trainer)
    batches = _batches_for_max_steps(trainer)
    if unit == "epoch":
        by_steps = None
        if batches is not None and math.isfinite(per_epoch) and per_epoch:
            by_steps = math.ceil(batches / per_epoch)
        return _least(epochs, by_steps)
    by_epochs = None
    if epochs is not None and math.isfinite(per_epoch):
        by_epochs = int(per_epoch) * epochs
    return _least(by_epochs, batches)


def _epochs_left(trainer: Trainer) -> int | None:
    if trainer.max_epochs is None or trainer.max_epochs < 0:
        return None
    return max(0, trainer.max_epochs - trainer.current_epoch)


def _batches_for_max_steps(trainer: Trainer) -> int | None:
    if trainer.max_steps < 0 or not trainer.lightning_module.automatic_optimization:
        return None  # by hand, a batch may step any number of optimizers
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    factors = [trainer.accumulate_grad_batches]
    for callback in callbacks:
        if is_kind(callback, "GradientAccumulationScheduler"):
            factors.extend(callback.scheduling.values())
    return max(0, trainer.max_steps - trainer.global_step) * max(factors)


def _least(*bounds: int | None) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)
