"""Profiles a bare model over a loader, without a LightningModule or a Trainer of the user's."""

import inspect
import math
from collections.abc import Iterable, Mapping
from operator import length_hint
from typing import Any

import torch
from torch.utils.data import DataLoader
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.gpuprof import GpuProfCallback
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.tensors import leaves_of
from lightning_gpuprof.views.console.run_report import RunReport, report

TRACED_STEPS = 3
"""Behind the timed steps: a step that torch.profiler records is slower."""


def profile_model(
    model: torch.nn.Module,
    loader: Iterable[Any],
    *,
    warmup: int = 5,
    steps: int = 20,
    grad: bool = False,
    device: torch.device | str | None = None,
) -> RunReport:
    """Time a model's steps over a loader and record the last few with torch.profiler.

    A batch that is a mapping is passed by name, a tuple or list by place, as far as `forward` has
    places for it: of `(images, labels)` a model of one argument gets the images. Records and trace
    go to `lightning_logs/version_<n>`, where TensorBoard finds them.

    Args:
        model: Any module; it is left in its own mode, training or evaluation.
        loader: Batches; it is begun again where it is too short.
        warmup: Steps before the timed ones.
        steps: Timed steps.
        grad: Whether each step also runs backward, from the mean of all results; no weight changes.
        device: Where to run, such as "cuda:1"; by default the first GPU, else the CPU.

    Returns:
        The report, as `lightning_gpuprof.report` gives it.

    Raises:
        ConfigError: A count is below 1, or the loader is empty.
    """
    if min(warmup, steps) < 1:
        raise ConfigError(f"warmup={warmup}, steps={steps} would time nothing. Pass 1 or more.")
    before = [one.device for one in model.parameters()][:1]
    if isinstance(loader, list | tuple):  # to a Trainer, several loaders
        loader = DataLoader(loader, batch_size=None)  # type: ignore[arg-type]
    whole = warmup + steps + 1 + TRACED_STEPS
    length = length_hint(loader, whole)  # an iterable dataset's is unknown
    if not length:
        raise ConfigError("The loader is empty. Pass one with at least one batch.")
    trainer = _trainer(device, warmup, whole, length)
    calls = _Calls(model, grad=grad)
    try:
        trainer.fit(calls, loader)
    finally:
        for place in before:
            model.to(place)
        calls.on_train_start()  # the modes that the Trainer has changed
    return report(trainer.log_dir or trainer.default_root_dir)


def _trainer(device: torch.device | str | None, warmup: int, whole: int, length: int) -> Trainer:
    return Trainer(
        **_place(device),
        max_epochs=math.ceil(whole / length),
        limit_train_batches=min(whole, length),
        callbacks=[
            GpuProfCallback(
                wait=whole - 1 - TRACED_STEPS,
                warmup=1,
                active=TRACED_STEPS,
                warmup_steps=warmup,
                profile_memory=True,
                report=False,
                console=False,
            )
        ],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def _place(device: torch.device | str | None) -> dict[str, Any]:
    if device is None:
        return {"accelerator": "auto", "devices": 1}
    chosen = torch.device(device)
    if chosen.type == "cpu":
        return {"accelerator": "cpu", "devices": 1}
    return {"accelerator": "gpu", "devices": [chosen.index or 0]}


class _Calls(LightningModule):
    """Calls a model with each batch."""

    def __init__(self, model: torch.nn.Module, *, grad: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.model, self.grad = model, grad
        self._modes = {module: module.training for module in model.modules()}
        kinds = [one.kind for one in inspect.signature(model.forward).parameters.values()]
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        several = inspect.Parameter.VAR_POSITIONAL in kinds
        self._places = None if several else sum(kind in places for kind in kinds)

    @override
    def on_train_start(self) -> None:
        for module, training in self._modes.items():
            module.training = training

    @override
    def training_step(self, batch: Any, batch_idx: int) -> None:
        with torch.set_grad_enabled(self.grad):
            result = self._called(batch)
        if self.grad:
            sums = [
                leaf.mean()
                for leaf in leaves_of(result)
                if isinstance(leaf, torch.Tensor) and leaf.requires_grad
            ]
            self.manual_backward(torch.stack(sums).sum())
            self.model.zero_grad()

    def _called(self, batch: Any) -> Any:
        if isinstance(batch, Mapping):
            return self.model(**batch)
        if isinstance(batch, tuple | list):
            return self.model(*batch[: self._places])
        return self.model(batch)

    @override
    def configure_optimizers(self) -> None:
        """Return none: no weight changes."""
