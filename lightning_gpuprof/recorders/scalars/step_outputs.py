"""Keeps the outputs of each batch, as `on_train_batch_end` is given them."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from lightning_gpuprof.adapters.lightning import accumulates
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog

Keep = Callable[[Any, Mapping[str, Any], Mapping[str, Tensor]], object]
_NONE: Mapping[str, Any] = {}


class StepOutputs:
    """Adds the outputs of each batch to a log, under the step that `self.log` would use.

    In automatic optimization `outputs["loss"]` is a copy that Lightning made, without a graph: it
    is kept as it is. Lightning has divided it by `accumulate_grad_batches`.

    Args:
        keep: Adds to it whatever is not the loss alone, or needs a copy.
        full: Steps of the open window at which `on_full` is called next.
        on_full: Must set `full` anew.
    """

    def __init__(
        self,
        trainer: Any,
        log: ScalarLog,
        keep: Keep,
        *,
        alone: bool,
        on_first: Callable[[int], object],
        full: int,
        on_full: Callable[[], object],
    ) -> None:
        self.log = log
        self._trainer, self._keep = trainer, keep
        self._epoch_loop = trainer.fit_loop.epoch_loop
        self._automatic = trainer.lightning_module.automatic_optimization
        self._alone = alone and self._automatic
        self._on_first, self._on_full = on_first, on_full
        self._has_begun = self._quick = False
        self._parts = 1
        self.begin_window(full)

    def add(self, outputs: Any) -> None:
        """Keep the outputs of the batch that ends.

        This runs in every step: the usual path is written out here, without a guard.
        """
        steps = self._steps
        loss = outputs.get("loss") if self._quick and outputs.__class__ is dict else None
        if loss.__class__ is Tensor and not loss.dim():
            self._first.append(loss)
            steps.append((self._epoch_loop._batches_that_stepped, self._parts))
        else:
            self._keep_all(outputs)
        if len(steps) == self.full:
            self._on_full()

    def begin_window(self, full: int) -> None:
        """Fill the log's open window, which is a new one, up to so many steps."""
        self.full = full
        self._steps, self._first = self.log.steps, self.log.first

    def begin_epoch(self) -> None:
        """Read anew by what losses are divided, as the first batch of an epoch ends."""
        self._quick = False

    def _keep_all(self, outputs: Any) -> None:
        """Keep all outputs of a batch, or that of an epoch's first."""
        if not self._has_begun:
            self._on_first(self._epoch_loop.batch_progress.total.completed)
            self._has_begun = True
        parts = self._trainer.accumulate_grad_batches if self._automatic else 1
        self._parts = parts
        self._quick = self._alone and parts == 1
        values = outputs if isinstance(outputs, Mapping) else _NONE
        loss = values.get("loss")
        private = _NONE
        if self._automatic and isinstance(loss, Tensor) and not loss.dim():
            private = {"loss": loss}
        waits = parts > 1 and accumulates(self._trainer)
        step = None if waits else self._epoch_loop._batches_that_stepped
        self._keep((step, parts), values, private)
