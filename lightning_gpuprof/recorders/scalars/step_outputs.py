"""Keeps the outputs of each batch, as `on_train_batch_end` is given them."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog

Keep = Callable[[int, Mapping[str, Any], Mapping[str, Tensor]], object]
_NONE: Mapping[str, Any] = {}


class StepOutputs:
    """Adds the outputs of each batch to a log.

    In automatic optimization `outputs["loss"]` is a copy that Lightning made, without a graph: it
    is kept as it is. Lightning has divided it by `accumulate_grad_batches`: see `undivided`.

    Args:
        trainer: In `on_train_start`.
        log: Gets the outputs. Its steps are those that `self.log` would use if the batch steps: if
            the next batch has the same, this one did not.
        keep: Adds to it whatever is not the loss alone, or needs a copy.
        alone: The log has the loss and nothing else.
        on_first: Called with the first batch's number, over all runs that this one goes on with.
        full: Steps of the open window at which `on_full` is called next.
        on_full: Must set `full` anew.

    Attributes:
        full: As above.
        batch: Number of the last batch; None where nothing accumulates, so that each one steps.
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
        self.batch: int | None = None
        self._trainer, self._log, self._keep = trainer, log, keep
        self._epoch_loop = trainer.fit_loop.epoch_loop
        self._progress = self._epoch_loop.batch_progress.total
        self._automatic = trainer.lightning_module.automatic_optimization
        self._alone = alone and self._automatic
        self._on_first, self._on_full = on_first, on_full
        self._has_begun = False
        self._epochs: list[tuple[int, int]] = []
        self._divisors: dict[int, int] = {}
        self.begin_window(full)
        self.begin_epoch(trainer.current_epoch)

    def add(self, outputs: Any) -> None:
        """Keep the outputs of the batch that ends.

        This runs in every step: the usual path is written out here, without a guard.
        """
        steps, step = self._steps, self._epoch_loop._batches_that_stepped
        loss = outputs.get("loss") if self._quick and outputs.__class__ is dict else None
        if loss.__class__ is Tensor and not loss.dim():
            self._first.append(loss)
            steps.append(step)
        else:
            self._keep_all(step, outputs)
        if len(steps) == self.full:
            self._on_full()

    def begin_window(self, full: int) -> None:
        """Fill the log's open window, which is a new one, up to so many steps."""
        self.full = full
        self._steps, self._first = self._log.steps, self._log.first
        self._quick = self._alone and self._has_begun and self.batch is None

    def begin_epoch(self, epoch: int) -> None:
        """Note the epoch of the batches to come."""
        self._epochs.append((len(self._log.steps), epoch))
        self._quick = False  # its first batch knows by what losses are divided

    def take_epochs(self) -> list[int]:
        """Return the epoch of each step of the open window, which ends here."""
        ends = [*(first for first, _ in self._epochs[1:]), len(self._log.steps)]
        found = [
            epoch
            for (first, epoch), end in zip(self._epochs, ends, strict=True)
            for _ in range(first, end)
        ]
        self._epochs = [(0, self._epochs[-1][1])]
        return found

    def undivided(self, epoch: int, loss: float | None) -> float | None:
        """Return the loss of a batch of an epoch as training_step returned it.

        The division rounded it to its type, so it may differ in the last place; where nothing
        accumulates, or by a power of two, it does not.
        """
        return loss if loss is None else loss * self._divisors.get(epoch, 1)

    def _keep_all(self, step: int, outputs: Any) -> None:
        """Keep all outputs of a batch, or that of an epoch's first."""
        if not self._has_begun:
            self._on_first(self._progress.completed)
            self._has_begun = True
        divisor = self._trainer.accumulate_grad_batches if self._automatic else 1
        self._divisors[self._epochs[-1][1]] = divisor
        self.batch = None if divisor == 1 else self._progress.ready
        self._quick = self._alone and divisor == 1
        values = outputs if isinstance(outputs, Mapping) else _NONE
        loss = values.get("loss")
        if self._automatic and isinstance(loss, Tensor) and not loss.dim():
            self._keep(step, values, {"loss": loss})
        else:
            self._keep(step, values, _NONE)
