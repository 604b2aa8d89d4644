"""The callback of a child of `try`: makes the changes, and trains a block of steps when asked."""

import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.adapters.loaders import BEFORE_FIRST_ITERATORS, loaders_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.tensors import first_dimension
from lightning_gpuprof.trials.change import Settings
from lightning_gpuprof.trials.pairs import Block

MOST_LOSSES = 20


class ProgramEnded(BaseException):
    """Ends the program; no `except Exception` stops it."""


class Blocks(Callback):
    """Trains as many steps as it is told, says how long they took, and waits to be told again.

    A block's first step is not counted: the process stood still before it. Nor is validation.
    `ask` is given a block and returns how many steps the next one has; the first block is the
    second half of the `warm` steps.
    """

    def __init__(
        self,
        settings: Settings,
        ask: Callable[[Block], int],
        *,
        warm: int,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._settings, self._ask, self._clock = settings, ask, clock
        self._step, self._from, self._until = 0, warm // 2, warm
        self._began_ns = self._left_out_ns = self._samples = self._first_step_ns = 0
        self._losses: list[Tensor] | None = []
        self._changed = not {"DataLoader", "cached_batches"} & set(settings)
        self._on_cuda = False

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            loop, instead = trainer.fit_loop, Wrappers().call_instead
            instead(loop, BEFORE_FIRST_ITERATORS, partial(self._last, loop))
            instead(loop.epoch_loop.val_loop, "run", self._leave_out)

    def _last(self, fit_loop: Any, last: Callable[[], Any]) -> Any:
        for loader in loaders_of(fit_loop):
            if isinstance(loader, DataLoader):
                change_loader(loader, self._settings)
                self._changed = True
        return last()

    def _leave_out(self, run: Callable[[], Any]) -> Any:
        began_ns = self._clock()
        try:
            return run()
        finally:
            self._left_out_ns += self._clock() - began_ns

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._changed:
            raise ConfigError("No DataLoader was found whose settings could be changed.")
        change_training(trainer, pl_module, self._settings)
        # Schedulers were made for the program's own length; blocks may take longer.
        trainer.fit_loop.max_epochs = -1
        trainer.fit_loop.epoch_loop.max_steps = -1
        self._on_cuda = trainer.strategy.root_device.type == "cuda"
        self._began_ns = self._clock()

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._step == self._until:
            steps = self._ask(self._block())
            self._from, self._until = self._step + 1, self._step + 1 + steps
        elif self._step == self._from:
            self._began_ns, self._left_out_ns, self._samples = self._now(), 0, 0
        self._step += 1

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._samples += max(0, first_dimension(batch))
        if self._step == 1:
            self._first_step_ns = self._now() - self._began_ns
        if self._losses is not None and len(self._losses) < MOST_LOSSES:
            loss = outputs.get("loss") if isinstance(outputs, dict) else None
            if isinstance(loss, Tensor) and loss.numel() == 1:
                self._losses.append(loss.detach().clone())

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise ProgramEnded

    def _block(self) -> Block:
        losses, self._losses = self._losses or [], None
        main_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return Block(
            ns=self._now() - self._began_ns - self._left_out_ns,
            steps=self._until - self._from,
            samples=self._samples,
            memory_bytes=torch.cuda.max_memory_reserved() if self._on_cuda else main_bytes,
            first_step_ns=self._first_step_ns,
            losses=tuple(float(loss) for loss in losses),
        )

    def _now(self) -> int:
        if self._on_cuda:
            torch.cuda.synchronize()  # what the steps have queued is part of them
        return self._clock()


def change_loader(loader: Any, settings: Settings) -> None:
    """Change a loader that has made no iterator yet."""
    options = settings.get("DataLoader", {})
    workers = loader.num_workers = options.get("num_workers", loader.num_workers)
    ahead = options.get("prefetch_factor", loader.prefetch_factor or 2)
    loader.prefetch_factor = ahead if workers else None
    loader.timeout = loader.timeout if workers else 0
    loader.pin_memory = options.get("pin_memory", loader.pin_memory)
    for name in {"persistent_workers", "batch_size"} & set(options):
        vars(loader)[name] = options[name]  # by attribute these are refused
    if "batch_size" in options:
        loader.batch_sampler.batch_size = options["batch_size"]
    if "cached_batches" in settings:
        _cache(loader, *settings["cached_batches"])


def change_training(trainer: Any, model: Any, settings: Settings) -> None:
    """Change optimizers, module and process as training starts."""
    if chosen := settings.get("optimizer"):
        for group in (group for one in trainer.optimizers for group in one.param_groups):
            group |= {kind: kind in chosen for kind in ("fused", "foreach") if kind in group}
    for line in settings.get("lines", ()):
        exec(line, {"torch": torch, "model": model})


def _cache(loader: Any, count: int) -> None:
    """Have a loader give its first batches again and again, in epochs of the same length."""
    own, kept = type(loader), list[Any]()

    def batches(self: Any) -> Iterator[Any]:
        left = len(self) if hasattr(self.dataset, "__len__") else None
        if not kept:
            for batch in islice(own.__iter__(self), count):
                kept.append(batch)
                yield batch
            left = None if left is None else left - len(kept)
        yield from islice(cycle(kept), left)

    # In a class of its own: there Python looks `__iter__` up.
    loader.__class__ = type(own.__name__, (own,), {"__iter__": batches})
