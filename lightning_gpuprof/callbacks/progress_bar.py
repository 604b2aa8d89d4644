"""Lightning's progress bars, showing the loss without making the host wait for it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import (
    LightningModule,
    RichProgressBar,
    TQDMProgressBar,
    Trainer,
    logged_results,
    step_value,
)
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.scalars.transfer import NamedNumbers
from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.patches import Patches

# Both bars have these hooks; which of them comes next is decided by the class below.
if TYPE_CHECKING:
    _Bar = TQDMProgressBar
else:
    _Bar = object


class _Values:
    """The last values that have arrived on the host.

    Lightning reads every value logged with `prog_bar=True` twice per batch, whether the bar is
    drawn or not. Here it gets `prog_bar=False`, and the values are copied by this object:
    one asynchronous copy at a time, begun when the bar is drawn and shown when it has arrived.
    """

    def __init__(self, outputs: Sequence[str]) -> None:
        self._outputs = outputs
        self._patches = Patches()
        self.shown: dict[str, float] = {}
        self._clear()

    def _clear(self) -> None:
        self._results: Any = None
        self._logged: set[str] = set()
        self._now: dict[str, Tensor | float] = {}
        self._pending: NamedNumbers | None = None

    @guarded
    def setup(self, trainer: Any) -> None:
        """Take the values of this fit's training steps over from Lightning."""
        self._release()
        self.shown = {}
        self._results = logged_results(trainer.fit_loop.epoch_loop)
        self._patches.put(self._results, "log", self._taking_over)

    @guarded
    def keep(self, trainer: Any, outputs: Any) -> None:
        """Remember what this step gave; nothing is read or copied."""
        found = outputs if isinstance(outputs, Mapping) else {}
        # Lightning has divided the loss; to be shown it is made whole again.
        automatic = trainer.lightning_module.automatic_optimization
        parts = trainer.accumulate_grad_batches if automatic else 1
        for name in self._outputs:
            value = found.get(name)
            if value is not None and _is_one(value):
                self._now[name] = value * parts if name == "loss" and parts > 1 else value

    @guarded
    def refresh(self) -> None:
        """Show what has arrived, and send for the newest values."""
        self._collect()
        if self._pending is None:
            for result in self._taken_over():
                if result.meta.on_step and _is_one(value := step_value(result)):
                    self._now[result.meta.forked_name(True)] = value
            if self._now:
                flat = {name: _flat(value) for name, value in self._now.items()}
                self._pending = NamedNumbers(flat)
            self._collect()

    @guarded
    def end_epoch(self, trainer: Any) -> None:
        """Show the means over the epoch too: this wait per epoch is Lightning's own."""
        means = trainer.callback_metrics
        for result in self._taken_over():
            name = result.meta.forked_name(False)
            if result.meta.on_epoch and isinstance(means.get(name), Tensor):
                self.shown[name] = float(means[name])

    def release(self) -> None:
        """Give everything back to Lightning."""
        self._release()

    def _collect(self) -> None:
        if self._pending is not None and self._pending.ready():
            self.shown |= self._pending.by_name()
            self._pending = None

    def _taken_over(self) -> list[Any]:
        found = self._results.values() if self._results is not None else ()
        return [result for result in found if result.meta.name in self._logged]

    def _taking_over(self, original: Any) -> Any:
        def log(fx: str, name: str, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("prog_bar"):
                kwargs["prog_bar"] = False
                self._logged.add(name)
            return original(fx, name, *args, **kwargs)

        return log

    def _release(self) -> None:
        self._patches.restore()
        self._clear()


def _is_one(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, (int, float))


def _flat(value: Tensor | float) -> Tensor | float:
    return value.detach().reshape(()) if isinstance(value, Tensor) else value


class _Deferred(_Bar):
    def __init__(self, metrics: Sequence[str] = ("loss",), **options: Any) -> None:
        super().__init__(**options)
        if isinstance(metrics, str):
            raise ConfigError(
                f"metrics={metrics!r} is one text, not a list of names. Pass "
                f"metrics=({metrics!r},), or () for logged values alone."
            )
        self._values = _Values(tuple(metrics))

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self._values.setup(trainer)

    @override
    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        self._values.keep(trainer, outputs)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._values.end_epoch(trainer)
        super().on_train_epoch_end(trainer, pl_module)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._values.release()
        super().on_train_end(trainer, pl_module)

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._values.release()
        super().on_exception(trainer, pl_module, exception)

    @override
    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        shown = super().get_metrics(trainer, pl_module)
        if trainer.training:
            self._values.refresh()
        return {**shown, **self._values.shown}


class DeferredProgressBar(_Deferred, TQDMProgressBar):
    """Lightning's default progress bar, without its host syncs.

    It looks the same and also shows the loss. Values logged with `prog_bar=True`, which
    Lightning reads twice in each batch, and those named here are copied to the host while
    training goes on: on a GPU what is shown is that of the last refresh.

    Args:
        metrics: Keys of training_step's output to show; () for logged values alone.
        **options: As for Lightning's TQDMProgressBar.

    Raises:
        ConfigError: `metrics` is one text.
    """


class DeferredRichProgressBar(_Deferred, RichProgressBar):
    """The same as `DeferredProgressBar`, drawn by the rich package.

    Args:
        metrics: As for `DeferredProgressBar`.
        **options: As for Lightning's RichProgressBar.

    Raises:
        ConfigError: `metrics` is one text.
    """
