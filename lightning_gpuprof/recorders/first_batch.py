"""Records facts of the first batch: its size, unused gradients, and values that ranks exchange."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, logged_results
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import BatchBytes, SyncedLogs, UnusedGradients
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.tensors import tensor_bytes


class FirstBatch(Recorder):
    """Records bytes, unused gradients and, with several ranks, the logged values they exchange.

    Ranks exchange values in every step that are logged with `sync_dist=True` and `on_step=True`.

    Costs: about 20 us, once.
    Touches: nothing. It reads the sizes of tensors, which parameters have gradients, and how values
        were logged.
    When: the end of the first batch.
    """

    @override
    def on_first_batch_end(self, trainer: Any, outputs: Any, batch: Any) -> None:
        if self._context is None:
            return
        self._context.write(BatchBytes(tensor_bytes(batch)))
        groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        unused = unused_gradients(trainer.lightning_module, groups)
        if unused is not None:
            self._context.write(unused)
        if trainer.world_size < 2:
            return
        results = logged_results(trainer.fit_loop.epoch_loop)
        metas = attempt(lambda: [result.meta for result in results.values()], [])
        names = [meta.name for meta in metas if meta.on_step and meta.sync.should]
        synced = tuple(dict.fromkeys(names))
        if synced:
            self._context.write(SyncedLogs(synced))


def unused_gradients(
    module: LightningModule, groups: Iterable[Mapping[str, Any]]
) -> UnusedGradients | None:
    """Return the parameters that have a gradient but belong to no optimizer, or None."""
    optimized = {id(parameter) for group in groups for parameter in group["params"]}
    trained = {
        name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad
    }
    unused = {
        name: parameter
        for name, parameter in trained.items()
        if parameter.grad is not None and id(parameter) not in optimized
    }
    if not unused:
        return None
    return UnusedGradients(
        tensors=len(unused),
        parameters=sum(parameter.numel() for parameter in unused.values()),
        all_parameters=sum(parameter.numel() for parameter in module.parameters()),
        modules=tuple(dict.fromkeys(_unused_module(name, unused, trained) for name in unused)),
    )


def _unused_module(name: str, unused: Iterable[str], trained: Iterable[str]) -> str:
    """Return the outermost module around a parameter that is wholly unused, or its own name.

    >>> _unused_module("a.b.weight", {"a.b.weight"}, {"a.b.weight", "a.c.weight"})
    'a.b'
    """
    parts = name.split(".")
    for depth in range(1, len(parts)):
        module = ".".join(parts[:depth])
        if all(other in unused for other in trained if other.startswith(f"{module}.")):
            return module
    return name
