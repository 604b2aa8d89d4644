"""Records the loss of every step without a host sync, and hands it to the loggers."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer, writes_files
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog
from lightning_gpuprof.recorders.scalars.scalar_sink import ScalarSink, logged_names
from lightning_gpuprof.recorders.scalars.step_outputs import StepOutputs
from lightning_gpuprof.recorders.scalars.transfer import (
    HostCopy,
    RankMeans,
    Transfer,
    Value,
    with_room,
)
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.recording import RecordingCallback
from lightning_gpuprof.runtime.safe_logger import SafeLogger

MOST_WAITING = 10
"""At most this many full windows wait (see `RunContext.windows_left`). To send ten windows, write
them and call the loggers costs about as much as for a single window."""


class DeferredLoss(RecordingCallback):
    """Records the loss and chosen outputs of every step, and reads them once per window.

    The values of a window stay on the device until they are copied to the host together. The copy
    is read a window later, so that no step waits for the device. Every logger receives them under
    the step numbers that `self.log` would have used. They equal the values of `.item()` bit for
    bit. Nothing is lost: the open window is flushed at the end of training, at an exception, at
    Ctrl-C and before a checkpoint.

    The loss is what training_step has returned. While gradients accumulate, Lightning divides it by
    `accumulate_grad_batches`. It is multiplied back on the host, and may differ in its last digit.
    The loggers then receive the values of the batches with an optimizer step, as from `self.log`,
    while the run's records hold all batches. A callback that writes to `outputs["loss"]` in place
    changes what is recorded.

    If the module itself logs a name with `self.log`, loggers do not receive it a second time. For
    the mean of an epoch use `self.log(..., on_step=False, on_epoch=True)`, which waits for the
    device once per epoch.

    Costs: 3 us per step, most of it for the Trainer's call of the hook, and a copy to the host per
        window. Every logger takes its own time for every step, about 50 us for a TensorBoardLogger
        and a single metric. A higher `log_every_n_steps` reduces that.
    Touches: keeps the outputs that `on_train_batch_end` receives, and stacks those of a window on
        their device.
    When: every step.
    Switch: metrics=()

    Args:
        metrics: Keys of training_step's output, such as "loss". Numbers and tensors with a single
            value can be recorded. Complex values and other tensors are refused.
        window: Batches between copies. Up to ten windows are copied together, but no more than
            fifteen seconds of training, and less than that early in a run.
        log_every_n_steps: Hand one step in this many to the loggers, or none if 0. The run's
            records hold all steps. By default, the TensorBoard and CSV loggers receive every step.
            Others, which may call a server, receive those of the Trainer's own `log_every_n_steps`.
        sync_dist: Average over the ranks that have a value, with a single collective per window.
        prefix: Written before every name that loggers receive.

    Raises:
        ConfigError: `metrics` is empty, or a number cannot work.
    """

    _of_a_run = ("_outputs", "_sink", "_trainer")

    def __init__(
        self,
        metrics: Sequence[str] = ("loss",),
        *,
        window: int = 50,
        log_every_n_steps: int | None = None,
        sync_dist: bool = False,
        prefix: str = "",
    ) -> None:
        _check(metrics, window, log_every_n_steps)
        super().__init__()
        self.metrics = tuple(metrics)
        self.window = window
        self.log_every_n_steps = log_every_n_steps
        self.sync_dist = sync_dist
        self.prefix = prefix
        self._outputs: StepOutputs | None = None
        self._sink: ScalarSink | None = None
        self._trainer: Trainer | None = None
        self._transfer: Transfer = HostCopy
        self._room = 0
        self._sent_ns: int | None = None
        self._refused: set[str] = set()

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._context is None:
            return
        self._trainer = trainer
        self._room = MOST_WAITING * self.window * len(self.metrics)
        self._transfer = with_room(self._room, trainer.strategy.root_device)
        self._sent_ns = None
        self._refused = set()
        self._sink = ScalarSink(
            self._context,
            loggers=self._loggers(trainer),
            prefix=self.prefix,
            names_of_others=partial(logged_names, trainer.fit_loop.epoch_loop),
        )
        log = ScalarLog(self.metrics, transfer=self._transfer, send=self._send, refuse=self._refuse)
        self._outputs = StepOutputs(
            trainer,
            log,
            self._add_to_log,
            loss_only=self.metrics == ("loss",),
            on_first=partial(setattr, self._sink, "first_batch"),
            full=self.window,
            on_full=self._fill,
        )

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._outputs is not None:
            self._outputs.begin_epoch()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Store the outputs of the step. Calls that may fail have guards of their own."""
        if self._outputs is not None:
            self._outputs.add(outputs)

    @guarded
    def _add_to_log(self, *step_and_values: Any) -> None:
        if self._outputs is not None:
            self._outputs.log.add(*step_and_values)

    @guarded
    def _fill(self) -> None:
        """Begin to copy the full windows to the host, unless they can wait."""
        context, outputs, sink = self._context, self._outputs, self._sink
        if context is None or outputs is None or sink is None:
            return
        more = 0
        # Ranks that exchange values must do so in the same batch, so the clock must not decide.
        if not self.sync_dist and self._sent_ns is not None:
            full = outputs.full // self.window
            more = min(MOST_WAITING - full, context.windows_left(self._sent_ns, full))
        if more <= 0:
            outputs.log.close_window()
            sink.write(outputs.log.arrived())
            self._begin_window(outputs)
            return
        if outputs.log.has_pending:
            sink.write(outputs.log.arrived())
            more = 1
        outputs.full += more * self.window

    def _begin_window(self, outputs: StepOutputs) -> None:
        outputs.begin_window(self.window)
        self._sent_ns = None if self._context is None else self._context.now()

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._flush()
        self._warn_of_missing()

    @override
    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Write the open window, so that a run resumed from this checkpoint lacks no values."""
        self._flush()

    def _refuse(self, name: str, error: Exception) -> None:
        if name not in self._refused and self._context is not None:
            self._refused.add(name)
            self._context.warn(f"DeferredLoss leaves {name!r} out: {error}")

    @guarded
    def _flush(self) -> None:
        outputs, sink = self._outputs, self._sink
        if outputs is None or sink is None:
            return
        sink.write(outputs.log.drain())
        self._begin_window(outputs)

    def _loggers(self, trainer: Any) -> list[tuple[SafeLogger, int]]:
        every = self.log_every_n_steps
        if every == 0 or not trainer.is_global_zero:
            return []
        trainers_every = max(1, trainer.log_every_n_steps)
        return [
            (SafeLogger(logger), every or (1 if writes_files(logger) else trainers_every))
            for logger in trainer.loggers
        ]

    def _send(self, values: list[Value]) -> RankMeans | None:
        trainer = self._trainer
        if not self.sync_dist or trainer is None or trainer.world_size == 1:
            return None
        strategy = trainer.strategy
        # Before its all-reduce a strategy calls a barrier, for which NCCL makes the host wait.
        has_group = torch.distributed.is_available() and torch.distributed.is_initialized()
        add = _sum_over_ranks if has_group else partial(strategy.reduce, reduce_op="sum")
        return RankMeans(values, strategy.root_device, add, self._transfer, room=self._room)

    def _warn_of_missing(self) -> None:
        # There is no warning for the default, since steps with several optimizers often return
        # nothing.
        context = self._context
        if context is None or self._sink is None or self.metrics == ("loss",):
            return
        missing = [name for name in self._sink.missing if name not in self._refused]
        if missing:
            context.warn(
                f"DeferredLoss recorded nothing for {missing}: training_step never returned "
                'them. Return a dict such as {"loss": loss, "kl": kl}, or ask for others.'
            )

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        """Write what is left, without `sync_dist`, since no rank may wait for another now."""
        self.sync_dist, synced = False, self.sync_dist
        try:
            self._flush()
        finally:
            self.sync_dist = synced

    @override
    def _release(self) -> None:
        self._outputs = self._sink = self._trainer = None


def _sum_over_ranks(sums: Tensor) -> Tensor:
    torch.distributed.all_reduce(sums)
    return sums


def _check(metrics: Sequence[str], window: int, log_every_n_steps: int | None) -> None:
    if isinstance(metrics, str) or not metrics:
        raise ConfigError(
            f"DeferredLoss(metrics={metrics!r}) names no metrics. Pass a sequence of "
            'names, for example metrics=("loss",).'
        )
    if window < 1:
        raise ConfigError(
            f"DeferredLoss(window={window}) would never copy a value. Pass 1 or more; 50 is "
            "the default."
        )
    if log_every_n_steps is not None and log_every_n_steps < 0:
        raise ConfigError(
            f"DeferredLoss(log_every_n_steps={log_every_n_steps}) is negative. Pass 1 to log "
            "every step, or 0 to log none."
        )
