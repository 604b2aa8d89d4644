"""Lightning's progress bars, showing the loss without making the host wait for it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import (
    LightningModule,
    RichProgressBar,
    TQDMProgressBar,
    Trainer,
)
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.recorders.scalars.bar_values import BarValues

# Both bars have these hooks; which of them comes next is decided by the class below.
if TYPE_CHECKING:
    _Bar = TQDMProgressBar
else:
    _Bar = object


class _Deferred(_Bar):
    _values: BarValues

    def _show(self, metrics: Sequence[str]) -> None:
        if isinstance(metrics, str):
            raise ConfigError(
                f"metrics={metrics!r} is one text, not a list of names. Pass "
                f"metrics=({metrics!r},), or () for logged values alone."
            )
        self._values = BarValues(tuple(metrics))

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
        refresh_rate: Batches between two refreshes.
        process_position: Lines to leave above.
        leave: Whether finished bars stay.

    Raises:
        ConfigError: `metrics` is one text.
    """

    def __init__(
        self,
        metrics: Sequence[str] = ("loss",),
        *,
        refresh_rate: int = 1,
        process_position: int = 0,
        leave: bool = False,
    ) -> None:
        super().__init__(refresh_rate, process_position, leave)
        self._show(metrics)


class DeferredRichProgressBar(_Deferred, RichProgressBar):
    """Lightning's progress bar of the rich package, without its host syncs.

    As `DeferredProgressBar`.

    Args:
        metrics: Keys of training_step's output to show; () for logged values alone.
        **options: As for Lightning's RichProgressBar.

    Raises:
        ConfigError: `metrics` is one text.
    """

    def __init__(self, metrics: Sequence[str] = ("loss",), **options: Any) -> None:
        super().__init__(**options)
        self._show(metrics)
