"""The callback in a child of `try`: it makes the changes and trains blocks of steps on demand."""

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
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.tensors import first_dimension
from lightning_gpuprof.trials.pairs import TrainedBlock

MAX_LOSSES = 20


class ProgramEnded(BaseException):
    """Ends the program. `except Exception` in the program does not catch it."""


class BlockTraining(Callback):
    """Trains blocks of steps, reports how long each block took, and waits for the next order.

    The first step of a block is not counted, because the process stood still before it. Validation
    is not counted either.

    Args:
        settings: The changes to make.
        next_block: Receives a finished block and returns the number of steps of the next block,
            when that is wanted. It may raise `ProgramEnded`.
        warm: Steps of warm-up. The second half of them is the first block that is reported.
        clock: Returns nanoseconds; tests pass a fake.
    """

    def __init__(
        self,
        settings: ChangedSettings,
        next_block: Callable[[TrainedBlock], int],
        *,
        warm: int,
        clock: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._settings = settings
        self._next_block = next_block
        self._clock = clock
        self._step = 0
        self._first_counted, self._block_end = warm // 2, warm
        self._began_ns = 0
        self._not_counted_ns = 0
        self._samples = 0
        self._first_step_ns = 0
        self._losses: list[Tensor] | None = []
        self._loader_is_final = not (settings.data_loader or settings.cached_batches)
        self._on_cuda = False

    @override
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage == "fit":
            loop, replace = trainer.fit_loop, Wrappers().call_instead
            replace(loop, BEFORE_FIRST_ITERATORS, partial(self._change_loaders, loop))
            replace(loop.epoch_loop.val_loop, "run", self._run_validation)

    def _change_loaders(self, fit_loop: Any, original: Callable[[], Any]) -> Any:
        """Change the loaders, which are final, directly before they make their first iterators."""
        for loader in loaders_of(fit_loop):
            if isinstance(loader, DataLoader):
                change_loader(loader, self._settings)
                self._loader_is_final = True
        return original()

    def _run_validation(self, original: Callable[[], Any]) -> Any:
        began_ns = self._clock()
        try:
            return original()
        finally:
            self._not_counted_ns += self._clock() - began_ns

    @override
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if not self._loader_is_final:
            raise ConfigError("The program has no DataLoader whose settings could be changed.")
        change_training(trainer, pl_module, self._settings)
        # Schedulers have been made for the program's own length. From here on training must not
        # end by itself, since the blocks may need more steps.
        trainer.fit_loop.max_epochs = -1
        trainer.fit_loop.epoch_loop.max_steps = -1
        self._on_cuda = trainer.strategy.root_device.type == "cuda"
        self._began_ns = self._clock()

    @override
    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        if self._step == self._block_end:
            steps = self._next_block(self._finished_block())
            self._first_counted = self._step + 1
            self._block_end = self._first_counted + steps
        elif self._step == self._first_counted:
            self._began_ns = self._device_clock()
            self._not_counted_ns = 0
            self._samples = 0
        self._step += 1

    @override
    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._samples += max(0, first_dimension(batch))
        if self._step == 1:
            self._first_step_ns = self._device_clock() - self._began_ns
        if self._losses is not None and len(self._losses) < MAX_LOSSES:
            loss = outputs.get("loss") if isinstance(outputs, dict) else None
            if isinstance(loss, Tensor) and loss.numel() == 1:
                self._losses.append(loss.detach().clone())

    @override
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        raise ProgramEnded

    def _finished_block(self) -> TrainedBlock:
        ns = self._device_clock() - self._began_ns - self._not_counted_ns
        losses = self._losses or []
        self._losses = None  # only the first block reports losses
        if self._on_cuda:
            memory_bytes = torch.cuda.max_memory_reserved()
        else:
            memory_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return TrainedBlock(
            ns=ns,
            steps=self._block_end - self._first_counted,
            samples=self._samples,
            memory_bytes=memory_bytes,
            first_step_ns=self._first_step_ns,
            losses=tuple(float(loss) for loss in losses),
        )

    def _device_clock(self) -> int:
        """Return the time once the device has done what the steps have queued."""
        if self._on_cuda:
            torch.cuda.synchronize()
        return self._clock()


def change_loader(loader: Any, settings: ChangedSettings) -> None:
    """Change a DataLoader that has not made an iterator yet."""
    arguments = settings.data_loader
    workers = arguments.get("num_workers", loader.num_workers)
    loader.num_workers = workers
    # Without workers a DataLoader accepts neither prefetch_factor nor timeout.
    prefetch_factor = arguments.get("prefetch_factor", loader.prefetch_factor or 2)
    loader.prefetch_factor = prefetch_factor if workers else None
    loader.timeout = loader.timeout if workers else 0
    loader.pin_memory = arguments.get("pin_memory", loader.pin_memory)
    for name in {"persistent_workers", "batch_size"} & set(arguments):
        vars(loader)[name] = arguments[name]  # a DataLoader refuses to have these attributes set
    if "batch_size" in arguments:
        loader.batch_sampler.batch_size = arguments["batch_size"]
    if settings.cached_batches:
        _repeat_first_batches(loader, settings.cached_batches)


def change_training(trainer: Any, model: Any, settings: ChangedSettings) -> None:
    """Change optimizers, module and process as training starts."""
    if settings.optimizer:
        for optimizer in trainer.optimizers:
            for group in optimizer.param_groups:
                for kind in ("fused", "foreach"):
                    if kind in group:
                        group[kind] = kind in settings.optimizer
    for line in settings.lines:
        exec(line, {"torch": torch, "model": model})


def _repeat_first_batches(loader: Any, count: int) -> None:
    """Let a loader give its first batches again and again, in epochs of the same length."""
    original_class = type(loader)
    cached: list[Any] = []

    def batches(self: Any) -> Iterator[Any]:
        left = len(self) if hasattr(self.dataset, "__len__") else None
        if not cached:
            for batch in islice(original_class.__iter__(self), count):
                cached.append(batch)
                yield batch
            if left is not None:
                left -= len(cached)
        yield from islice(cycle(cached), left)

    # Python looks `__iter__` up in the class, so the loader gets a class of its own.
    loader.__class__ = type(original_class.__name__, (original_class,), {"__iter__": batches})
