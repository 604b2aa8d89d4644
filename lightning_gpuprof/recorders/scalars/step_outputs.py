"""Adds the outputs of every batch, as `on_train_batch_end` receives them, to a `ScalarLog`."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from lightning_gpuprof.adapters.lightning import accumulates
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog

AddStep = Callable[[Any, Mapping[str, Any], Mapping[str, Tensor]], object]
"""The type of `ScalarLog.add`."""
_NO_VALUES: Mapping[str, Any] = {}


class StepOutputs:
    """Adds the outputs of every batch to a log, under the step that `self.log` would use.

    With automatic optimization, `outputs["loss"]` is a copy without a graph that Lightning has
    made, so that it is recorded without another copy. Lightning has divided it by
    `accumulate_grad_batches`.

    Args:
        trainer: The Trainer.
        log: Receives a plain loss directly.
        add: Adds any other outputs to the log.
        loss_only: Whether the loss is the only value that is recorded.
        on_first: Receives the number of batches that were trained before the first one.
        full: The number of steps in the open window at which `on_full` is called.
        on_full: Must set `full` to the number at which it is called next.
    """

    def __init__(
        self,
        trainer: Any,
        log: ScalarLog,
        add: AddStep,
        *,
        loss_only: bool,
        on_first: Callable[[int], object],
        full: int,
        on_full: Callable[[], object],
    ) -> None:
        self.log = log
        self._trainer, self._add = trainer, add
        self._epoch_loop = trainer.fit_loop.epoch_loop
        self._automatic = trainer.lightning_module.automatic_optimization
        self._loss_only = loss_only and self._automatic
        self._on_first, self._on_full = on_first, on_full
        self._has_begun = False
        self._is_plain_loss = False
        """Whether the outputs of this epoch are a loss that can be appended directly."""
        self._divisor = 1
        """The number by which Lightning has divided the loss."""
        self.begin_window(full)

    def add(self, outputs: Any) -> None:
        """Add the outputs of the batch that ends.

        Since this runs in every step, the usual case is written out here and has no guard.
        """
        steps = self._steps
        loss = outputs.get("loss") if self._is_plain_loss and outputs.__class__ is dict else None
        if loss.__class__ is Tensor and not loss.dim():
            self._first.append(loss)
            steps.append((self._epoch_loop._batches_that_stepped, self._divisor))
        else:
            self._add_outputs(outputs)
        if len(steps) == self.full:
            self._on_full()

    def begin_window(self, full: int) -> None:
        """Go on with the log's new window, which is full after `full` steps."""
        self.full = full
        self._steps, self._first = self.log.steps, self.log.first

    def begin_epoch(self) -> None:
        """Let the first batch of the epoch determine by what number the loss is divided."""
        self._is_plain_loss = False

    def _add_outputs(self, outputs: Any) -> None:
        """Add the outputs of an epoch's first batch, or of a batch with more than a plain loss."""
        if not self._has_begun:
            self._on_first(self._epoch_loop.batch_progress.total.completed)
            self._has_begun = True
        divisor = self._trainer.accumulate_grad_batches if self._automatic else 1
        self._divisor = divisor
        self._is_plain_loss = self._loss_only and divisor == 1
        values = outputs if isinstance(outputs, Mapping) else _NO_VALUES
        loss = values.get("loss")
        private = _NO_VALUES
        if self._automatic and isinstance(loss, Tensor) and not loss.dim():
            private = {"loss": loss}
        is_accumulating = divisor > 1 and accumulates(self._trainer)
        step = None if is_accumulating else self._epoch_loop._batches_that_stepped
        self._add((step, divisor), values, private)
