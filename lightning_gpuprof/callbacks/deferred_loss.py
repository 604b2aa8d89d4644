"""The loss of every step in every logger, without a host sync in any step."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import (
    LightningModule,
    Trainer,
    rank_zero_warn,
)
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.scalars.epoch_means import EpochMeans
from lightning_gpuprof.recorders.scalars.logger_pace import LoggerPace
from lightning_gpuprof.recorders.scalars.scalar_log import ScalarLog
from lightning_gpuprof.recorders.scalars.scalar_sink import ScalarSink, logged_names
from lightning_gpuprof.recorders.scalars.sketch import columns_of, sketch
from lightning_gpuprof.recorders.scalars.step_outputs import StepOutputs
from lightning_gpuprof.recorders.scalars.transfer import (
    HostCopy,
    RankMeans,
    Transfer,
    Value,
    with_room,
)
from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.recording import RecordingCallback

_OF_A_RUN = ("_outputs", "_sink", "_trainer")
_NOT_A_TENSORS = (AttributeError, RuntimeError, TypeError, ValueError)
"""Errors of outputs that are no tensors, or of a kind of their own; an OOM is a RuntimeError."""
MOST_WAITING = 10
"""Full windows wait (`RunOutput.windows_left`), at most this many: to send them, to write files and
to call loggers costs about as much for ten windows as for one."""


class DeferredLoss(RecordingCallback):
    """Records the loss and chosen outputs of every step; turns them into numbers once a window.

    Values stay on the device and cross to the host with one copy per window, which is read a
    window later, so no step waits for the device. They reach every logger under the step
    numbers that `self.log` would have used and bit for bit as `.item()` would have given them. The
    loss is what training_step returned: while gradients accumulate, Lightning hands on the loss
    divided by `accumulate_grad_batches`, which is multiplied back on the host and may differ in the
    last place. A callback that writes to `outputs["loss"]` in place changes what is kept. A name
    that `self.log` is called with as well is left to it: loggers get no second curve under it.
    Nothing is lost: the open window is flushed at the end, at an exception, at Ctrl-C and
    before a checkpoint. While gradients accumulate the loggers get what `self.log` gives them,
    the value of the batch that steps; the run's records hold every batch.

    Costs: 3 us per step, most of it the Trainer's call of the hook, and a copy to the host per
        window; each logger takes its own time for each step, some 50 us with a TensorBoardLogger
        and one metric (`log_every_n_steps` thins it out).
    Touches: keeps what `on_train_batch_end` is given and stacks a window of it, on its device.
    When: every step.
    Switch: metrics=()

    Args:
        metrics: Keys of training_step's output: "loss" and others. Numbers and tensors with
            one value can be recorded; complex ones and those with a shape are refused.
        tensors: Keys of outputs with a shape, such as "logits": of each step the records hold
            its norm and eight sums, by which `compare` tells whether two runs' tensors are the
            same within a tolerance. Loggers get nothing of them.
        window: Batches between copies; up to ten windows, or what comes in fifteen seconds, early
            on in less, are copied together.
        log_every_n_steps: Hand one step in this many to the loggers, 0 for none; the run's
            records hold them all. By default loggers get every step; a logger whose calls take long
            (a server's) gets the steps of the Trainer's own `log_every_n_steps`.
        epoch_mean: Also log each metric's mean over an epoch, as `<name>_epoch`.
        sync_dist: Average over the ranks that gave a value, with one collective per window.
        prefix: Put before every name in the loggers.
        required: Whether to warn, when training ends, of a metric that never came; of a tensor
            it does.

    Raises:
        ConfigError: `metrics` and `tensors` are empty, or a number makes no sense.
    """

    def __init__(
        self,
        metrics: Sequence[str] = ("loss",),
        *,
        tensors: Sequence[str] = (),
        window: int = 50,
        log_every_n_steps: int | None = None,
        epoch_mean: bool = True,
        sync_dist: bool = False,
        prefix: str = "",
        required: bool = True,
    ) -> None:
        _check(metrics, tensors, window, log_every_n_steps)
        super().__init__()
        self.metrics = tuple(metrics)
        self.tensors = tuple(tensors)
        self.window = window
        self.log_every_n_steps = log_every_n_steps
        self.epoch_mean = epoch_mean
        self.sync_dist = sync_dist
        self.prefix = prefix
        self.required = required
        self._means = EpochMeans()
        self._outputs: StepOutputs | None = None
        self._sink: ScalarSink | None = None
        self._trainer: Trainer | None = None
        self._transfer: Transfer = HostCopy
        self._room = 0
        self._sent_ns: int | None = None
        self._ended_epoch: int | None = None
        self._refused: set[str] = set()

    @property
    @override
    def state_key(self) -> str:
        """A key by metrics and prefix: a Trainer may have several of these."""
        return self._generate_state_key(metrics=self.metrics, prefix=self.prefix)

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Join the run's output; what an exception left of the last fit's epoch is none of this."""
        super().setup(trainer, pl_module, stage)
        if stage == "fit":
            self._means = EpochMeans()  # a checkpoint's are restored after this

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin with an empty window."""
        if self._output is None:
            return
        names = [*self.metrics, *(one for name in self.tensors for one in columns_of(name))]
        self._trainer = trainer
        self._room = MOST_WAITING * self.window * len(names)
        self._transfer = with_room(self._room, trainer.strategy.root_device)
        self._ended_epoch = self._sent_ns = None
        self._refused = set()
        self._sink = ScalarSink(
            self._output,
            self._means,
            paces=self._paces(trainer),
            epoch_mean=self.epoch_mean,
            prefix=self.prefix,
            others=partial(logged_names, trainer.fit_loop.epoch_loop),
            tensors=self.tensors,
        )
        self._outputs = StepOutputs(
            trainer,
            ScalarLog(names, transfer=self._transfer, send=self._send, refuse=self._refuse),
            self._keep,
            alone=names == ["loss"],
            on_first=partial(setattr, self._sink, "first_batch"),
            full=self.window,
            on_full=self._fill,
        )

    @override
    @guarded
    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note that an epoch begins."""
        if self._outputs is not None:
            self._outputs.begin_epoch()

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Keep the step's outputs; the calls in it that may fail are guarded."""
        if self._outputs is not None:
            self._outputs.add(outputs)

    @guarded
    def _keep(self, step: Any, values: Mapping[str, Any], private: Mapping[str, Tensor]) -> None:
        if self._outputs is not None:
            private = {**private, **self._sketched(values)} if self.tensors else private
            self._outputs.log.add(step, values, private)

    def _sketched(self, values: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return what is kept of the step's tensors; of what is none nothing is."""
        found: dict[str, Tensor] = {}
        for name in self.tensors:
            value = values.get(name)
            if value is None or name in self._refused:
                continue
            try:
                found.update(zip(columns_of(name), sketch(value).unbind(), strict=True))
            except _NOT_A_TENSORS as error:
                self._refuse(name, error)
        return found

    @guarded
    def _fill(self) -> None:
        """A window is full: send it off, unless it can wait."""
        output, outputs, sink = self._output, self._outputs, self._sink
        if output is None or outputs is None or sink is None:
            return
        more = 0
        # Ranks that meet must do so in the same batch, whatever their clocks say.
        if not self.sync_dist and self._sent_ns is not None:
            full = outputs.full // self.window
            more = min(MOST_WAITING - full, output.windows_left(self._sent_ns, full))
        if more <= 0:
            outputs.name_steps()
            outputs.log.close_window()
            sink.take(outputs.log.arrived())
            self._begin_window(outputs)
            return
        if outputs.log.on_their_way:
            sink.take(outputs.log.arrived())
            more = 1
        outputs.full += more * self.window

    def _begin_window(self, outputs: StepOutputs) -> None:
        outputs.begin_window(self.window)
        self._sent_ns = None if self._output is None else self._output.now()

    @override
    @guarded
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remember that the open epoch's means are complete once its values have arrived."""
        self._ended_epoch = trainer.current_epoch

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Hand on all that is left."""
        self._flush()
        if self._sink is not None:
            self._sink.end_epoch()
        self._say_missing()

    @override
    def state_dict(self) -> dict[str, Any]:
        """Return the means of the epoch so far; hands on the open window first."""
        self._flush()
        return {"epoch_means": self._means.state_dict()}

    @override
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the means of the epoch that a checkpoint was made in."""
        self._means.load_state_dict(state_dict.get("epoch_means", {}))

    def _refuse(self, name: str, error: Exception) -> None:
        if name not in self._refused:
            self._refused.add(name)
            rank_zero_warn(f"DeferredLoss leaves {name!r} out: {error}")

    @guarded
    def _flush(self) -> None:
        outputs, sink = self._outputs, self._sink
        if outputs is None or sink is None:
            return
        outputs.name_steps()
        sink.take(outputs.log.drain())
        self._begin_window(outputs)
        if self._means.epoch is not None and self._means.epoch == self._ended_epoch:
            sink.end_epoch()

    def _paces(self, trainer: Any) -> list[LoggerPace]:
        return [
            LoggerPace(logger, every=self.log_every_n_steps, slow_every=trainer.log_every_n_steps)
            for logger in (trainer.loggers if trainer.is_global_zero else ())
        ]

    def _send(self, values: list[Value]) -> RankMeans | None:
        trainer = self._trainer
        if not self.sync_dist or trainer is None or trainer.world_size == 1:
            return None
        strategy = trainer.strategy
        # Before its all-reduce a strategy makes a barrier, for which NCCL has the host wait.
        plain = torch.distributed.is_available() and torch.distributed.is_initialized()
        add = _add_up if plain else partial(strategy.reduce, reduce_op="sum")
        return RankMeans(values, strategy.root_device, add, self._transfer, room=self._room)

    def _say_missing(self) -> None:
        never = self._sink.missing if self._sink is not None else []
        asked = [name for name in never if self.required or name in self.tensors]
        missing = [name for name in asked if name not in self._refused]
        if missing:
            rank_zero_warn(
                f"DeferredLoss recorded nothing for {missing}: training_step never returned "
                'them. Return a dict such as {"loss": loss, "kl": kl}, or ask for others.'
            )

    @override
    def _rescue(self, trainer: Trainer, exception: BaseException) -> None:
        """Hand on all that is left; ranks do not meet again, so none waits for another."""
        self.sync_dist, synced = False, self.sync_dist
        try:
            self._flush()
        finally:
            self.sync_dist = synced

    def __getstate__(self) -> dict[str, Any]:
        """Leave the run out of copies."""
        return self.__dict__ | dict.fromkeys(_OF_A_RUN)

    @override
    def _release(self) -> None:
        self._outputs = self._sink = self._trainer = None


def _add_up(sums: Tensor) -> Tensor:
    torch.distributed.all_reduce(sums)
    return sums


def _check(
    metrics: Sequence[str], tensors: Sequence[str], window: int, log_every_n_steps: int | None
) -> None:
    if isinstance(tensors, str):
        raise ConfigError(f"DeferredLoss(tensors={tensors!r}) is no sequence: pass ({tensors!r},).")
    if isinstance(metrics, str) or not (metrics or tensors):
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
