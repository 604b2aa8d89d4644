"""Lightning's progress bar, showing the loss without making the host wait for it."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import (
    LightningModule,
    TQDMProgressBar,
    Trainer,
    logged_results,
    step_value,
)
from lightning_gpuprof.recorders.scalars.transfer import Numbers
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import enable, guarded
from lightning_gpuprof.runtime.switch import is_off
from lightning_gpuprof.runtime.wrap import Wrappers


class DeferredProgressBar(TQDMProgressBar):
    """Lightning's default progress bar, without its host syncs.

    It looks the same, and also shows the loss. Lightning reads every value that is logged with
    `prog_bar=True` twice per batch. This callback passes `prog_bar=False` to it instead. When the
    bar is drawn, an asynchronous copy of these values and of the loss begins, unless the previous
    copy is still running. On a GPU, the bar therefore shows the values of the refresh before.
    With `LIGHTNING_GPUPROF=off` it is Lightning's bar.

    Args:
        **options: As for Lightning's TQDMProgressBar.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._is_off = is_off()
        self._wrappers = Wrappers()
        self._shown: dict[str, float] = {}
        self._begin(None)

    def _begin(self, results: Any) -> None:
        self._wrappers.restore()
        self._results = results
        self._replaced: set[str] = set()
        self._latest: dict[str, Tensor] = {}
        self._pending: tuple[list[str], Numbers] | None = None

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        if self._is_off:
            return
        enable(self)
        self._shown = {}
        self._take_over(trainer)

    @guarded
    def _take_over(self, trainer: Any) -> None:
        self._begin(logged_results(trainer.fit_loop.epoch_loop))
        self._wrappers.call_instead(self._results, "log", self._log)
        if (context := RunContext.running(trainer)) is not None:
            context.at_end(lambda *_: self._release())

    def _log(self, original: Any, fx: str, name: str, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("prog_bar"):
            kwargs["prog_bar"] = False
            self._replaced.add(name)
        return original(fx, name, *args, **kwargs)

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._is_off:
            self._store_loss(trainer, outputs)
        super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)

    @guarded
    def _store_loss(self, trainer: Any, outputs: Any) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else None
        if isinstance(loss, Tensor) and loss.numel() == 1:
            # Lightning has divided the loss by the number of accumulated batches.
            automatic = trainer.lightning_module.automatic_optimization
            divisor = trainer.accumulate_grad_batches if automatic else 1
            self._latest["loss"] = loss * divisor if divisor > 1 else loss

    @override
    def get_metrics(self, trainer: Trainer, pl_module: LightningModule) -> dict[str, Any]:
        shown = super().get_metrics(trainer, pl_module)
        if trainer.training and not self._is_off:
            self._refresh()
        return {**shown, **self._shown}

    @guarded
    def _refresh(self) -> None:
        self._collect()
        if self._pending is not None:
            return
        for result in self._logged():
            if result.meta.on_step and isinstance(value := step_value(result), Tensor):
                self._latest[result.meta.forked_name(True)] = value
        if self._latest:
            flat = [value.detach().reshape(()) for value in self._latest.values()]
            self._pending = list(self._latest), Numbers(flat)
            self._collect()

    def _collect(self) -> None:
        if self._pending is not None and self._pending[1].ready():
            names, numbers = self._pending
            self._shown.update(zip(names, numbers.result(), strict=True))
            self._pending = None

    def _logged(self) -> list[Any]:
        results = self._results.values() if self._results is not None else ()
        return [result for result in results if result.meta.name in self._replaced]

    @override
    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._show_means(trainer.callback_metrics)
        super().on_train_epoch_end(trainer, pl_module)

    @guarded
    def _show_means(self, means: Mapping[str, Any]) -> None:
        """Show the means over the epoch too, for which Lightning waits for the device anyway."""
        for result in self._logged():
            name = result.meta.forked_name(False)
            if result.meta.on_epoch and isinstance(means.get(name), Tensor):
                self._shown[name] = float(means[name])

    def _release(self) -> None:
        self._begin(None)

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        super().on_train_end(trainer, pl_module)

    @override
    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        self._release()
        super().on_exception(trainer, pl_module, exception)
