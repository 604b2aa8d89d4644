"""Records whether the workers of an `IterableDataset` yield the same batches."""

from collections.abc import Callable
from functools import partial
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import data_loop
from lightning_gpuprof.adapters.loaders import stream_workers
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import StreamBatches
from lightning_gpuprof.runtime.guard import attempt, guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher
from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.tensors import checksum

TO_DEVICE = "batch_to_device"
"""The method of a strategy that receives each batch while it is on the host."""
ROUNDS = 2
"""So many batches of every worker are compared."""


class StreamBatchesRecorder(Recorder):
    """Records whether all workers of an `IterableDataset` yield the same batches.

    A dataset that does not look which worker it is in (`get_worker_info`) yields every sample once
    per worker. Workers take turns, so that their first batches come one after the other, then their
    second batches. They are the same if they are equal in both turns while the turns differ.

    Costs: 0.2 ms per tensor of 1 MiB or more, for the first two batches of every worker.
    Touches: `batch_to_device` of the strategy, during these batches. It reads the values of their
        tensors on the host, up to 1 MiB of each, for a checksum.
    When: the first batches, if the loader has several workers and an `IterableDataset`.
    """

    def __init__(self) -> None:
        self._wrappers = Wrappers()
        self._workers = 0
        self._checksums: list[int | None] = []

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._workers, self._checksums = stream_workers(data_loop(trainer)), []
        if self._workers > 1:
            read = partial(self._read, trainer)
            strategy = trainer.strategy
            self._wrappers.replace(strategy, TO_DEVICE, partial(_ReadBefore, strategy, read))

    @guarded
    def _read(self, trainer: Any, batch: Any) -> None:
        """Compute the checksum of a batch, and compare those of all workers after the last."""
        context = self._context
        if context is None or (context.stage == "fit" and not trainer.training):
            return
        self._checksums.append(attempt(partial(checksum, batch), None))
        if len(self._checksums) < ROUNDS * self._workers:
            return
        self.release()
        first, second = self._checksums[: self._workers], self._checksums[self._workers :]
        if None not in (*first, *second):
            same = len(set(first)) == len(set(second)) == 1 and first != second
            context.write(StreamBatches(self._workers, same))

    @override
    def release(self) -> None:
        self._wrappers.restore()


class _ReadBefore:
    """Takes the place of a method, and has its first argument read before it is called.

    A copy of the owner (by pickle or deepcopy) has the original method.
    """

    def __init__(
        self, owner: object, read: Callable[[Any], object], original: Callable[..., Any]
    ) -> None:
        self._owner, self._read, self._original = owner, read, original

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args:
            self._read(args[0])
        return self._original(*args, **kwargs)

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (self._owner, TO_DEVICE)
