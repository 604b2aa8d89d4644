"""Records embedding tables with dense gradients, and how few of their rows a batch needs."""

from typing import Any

from msgspec.structs import replace
from torch import Tensor, nn, strided
from typing_extensions import override

from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import EmbeddingTable, EmbeddingTables
from lightning_gpuprof.runtime.hooks import HookDispatcher

MIN_BYTES = 1 << 20
"""Smaller tables are not recorded: a pass over them takes less than 0.1 ms."""


class EmbeddingTablesRecorder(Recorder):
    """Records large embedding tables with dense gradients, and the rows that the first batch used.

    A row counts as used if its gradient holds another number than 0. So a table whose weights also
    belong to an output layer (tied weights) is used as a whole.

    Costs: 0.2 ms per MiB of the gradients of tables of 1 MiB or more, once; without such tables a
        walk over the modules. A device counts by itself, and the host reads the counts at the end.
    Touches: nothing. It reads gradients, and counts in tensors of its own.
    When: the end of the first batch, and the end of training.
    """

    def __init__(self) -> None:
        self._counted: list[tuple[EmbeddingTable, Tensor]] = []

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()

    @override
    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        optimized = {
            id(parameter)
            for optimizer in trainer.optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        for name, module in trainer.lightning_module.named_modules():
            if (
                isinstance(module, nn.Embedding | nn.EmbeddingBag)
                and id(module.weight) in optimized
            ):
                self._count(name, module.weight)
        if self._counted and all(rows.device.type == "cpu" for _, rows in self._counted):
            self._write()

    def _count(self, name: str, weight: Tensor) -> None:
        gradient = weight.grad
        if type(gradient) is not Tensor or gradient.layout is not strided:
            return  # not trained, sparse, or a shard
        num_bytes = weight.numel() * weight.element_size()
        if num_bytes < MIN_BYTES:
            return
        table = EmbeddingTable(
            name=name,
            rows=weight.shape[0],
            columns=weight.shape[1],
            num_bytes=num_bytes,
            used_rows=0,
        )
        self._counted.append((table, gradient.any(1).sum()))

    @override
    def on_train_end(self, trainer: Any) -> None:
        self._write()

    def _write(self) -> None:
        counted, self._counted = self._counted, []
        if counted and self._context is not None:
            tables = (replace(table, used_rows=int(rows)) for table, rows in counted)
            self._context.write(EmbeddingTables(tuple(tables)))

    @override
    def release(self) -> None:
        self._counted = []
