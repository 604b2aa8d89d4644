"""The values of a progress bar, read from the device without waiting for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from lightning_gpuprof.adapters.lightning import logged_results, step_value
from lightning_gpuprof.recorders.scalars.deferred import PendingScalars, start_copy
from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.patches import Patches


class BarValues:
    """The last values that have arrived on the host.

    Lightning reads every value logged with `prog_bar=True` twice per batch, whether the bar is
    drawn or not. Here it gets `prog_bar=False`, and the values are copied by this object:
    one asynchronous copy at a time, begun when the bar is drawn and shown when it has arrived.

    Args:
        outputs: Keys of training_step's output to show beside what was logged.
    """

    def __init__(self, outputs: Sequence[str]) -> None:
        self._outputs = outputs
        self._patches = Patches()
        self._results: Any = None
        self._logged: set[str] = set()
        self._now: dict[str, Tensor | float] = {}
        self._pending: PendingScalars | None = None
        self.shown: dict[str, float] = {}

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
        parts = trainer.accumulate_grad_batches if _automatic(trainer) else 1
        for name in self._outputs:
            value = found.get(name)
            if value is not None and _is_one(value):
                self._now[name] = value * parts if name == "loss" and parts > 1 else value

    @guarded
    def refresh(self) -> None:
        """Show what has arrived, and send for the newest values."""
        self._collect()
        if self._pending is None:
            self._now |= self._steps_values()
            values = {name: _plain(value) for name, value in self._now.items()}
            self._pending = start_copy(values) if values else None
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
            self.shown |= self._pending.result()
            self._pending = None

    def _steps_values(self) -> dict[str, Tensor | float]:
        return {
            result.meta.forked_name(True): value
            for result in self._taken_over()
            if result.meta.on_step and _is_one(value := step_value(result))
        }

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
        self._results, self._pending = None, None
        self._now, self._logged = {}, set()


def _automatic(trainer: Any) -> bool:
    return bool(trainer.lightning_module.automatic_optimization)


def _is_one(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1 and not value.is_complex()
    return isinstance(value, (int, float))


def _plain(value: Tensor | float) -> Tensor | float:
    return value.detach().reshape(()) if isinstance(value, Tensor) else value
