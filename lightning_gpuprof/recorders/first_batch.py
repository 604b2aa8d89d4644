"""The size of a batch, gradients that nobody uses, and values that ranks exchange for the log."""

from collections.abc import Iterable, Mapping
from typing import Any

from typing_extensions import override

from lightning_gpuprof.adapters.lightning import LightningModule, logged_results
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import BatchBytes, SyncedLogs, UnusedGradients
from lightning_gpuprof.runtime.guard import attempt
from lightning_gpuprof.tensors import tensor_bytes


class FirstBatch(Recorder):
    """Records bytes, unused gradients and, with several ranks, what each step's log exchanges.

    Exchanged in each step is what is logged with `sync_dist=True` and `on_step=True`.

    Costs: some 20 us, once.
    Touches: nothing; it reads tensors' sizes, which parameters have gradients, and how values were
        logged.
    When: the first batch's end.
    """

    @override
    def first_batch_ends(self, trainer: Any, batch: Any) -> None:
        if self._context is None:
            return
        self._context.write(BatchBytes(tensor_bytes(batch)))
        groups = [group for one in trainer.optimizers for group in one.param_groups]
        unused = unused_gradients(trainer.lightning_module, groups)
        if unused is not None:
            self._context.write(unused)
        if trainer.world_size < 2:
            return
        results = logged_results(trainer.fit_loop.epoch_loop)
        metas = attempt(lambda: [one.meta for one in results.values()], [])
        synced = tuple(dict.fromkeys(one.name for one in metas if one.on_step and one.sync.should))
        if synced:
            self._context.write(SyncedLogs(synced))


def unused_gradients(
    module: LightningModule, groups: Iterable[Mapping[str, Any]]
) -> UnusedGradients | None:
    """Return the parameters that have a gradient and are in no group of an optimizer, if any."""
    used = {id(parameter) for group in groups for parameter in group["params"]}
    trained = {name: one for name, one in module.named_parameters() if one.requires_grad}
    unused = {
        name: one for name, one in trained.items() if one.grad is not None and id(one) not in used
    }
    if not unused:
        return None
    return UnusedGradients(
        tensors=len(unused),
        parameters=sum(one.numel() for one in unused.values()),
        all_parameters=sum(one.numel() for one in module.parameters()),
        modules=tuple(dict.fromkeys(_owner(name, unused, trained) for name in unused)),
    )


def _owner(name: str, unused: Iterable[str], trained: Iterable[str]) -> str:
    """Return the outermost module of a parameter that is unused as a whole, or its own name.

    >>> _owner("a.b.weight", {"a.b.weight"}, {"a.b.weight", "a.c.weight"})
    'a.b'
    """
    parts = name.split(".")
    for depth in range(1, len(parts)):
        prefix = ".".join(parts[:depth])
        if all(one in unused for one in trained if one.startswith(f"{prefix}.")):
            return prefix
    return name
