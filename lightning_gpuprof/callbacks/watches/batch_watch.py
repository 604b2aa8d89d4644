"""Looks at some of the first batches for padding that none of their samples needs."""

from collections import defaultdict
from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import RecordingCallback
from lightning_gpuprof.probes.batch_size.batch_samples import tensor_bytes
from lightning_gpuprof.probes.looks.padding import Padded, padded_in
from lightning_gpuprof.probes.looks.padding_line import padding_line
from lightning_gpuprof.probes.looks.unseen import unseen
from lightning_gpuprof.probes.scalars.transfer import Pending, Transfer, to_host
from lightning_gpuprof.records.padding import PADDING_NOTE, Padding
from lightning_gpuprof.records.schema import BATCH_NOTE

LOOKS = 5
"""Batches of the look, the run's first: fewer than are left out as warm-up."""


class BatchWatch(RecordingCallback):
    """Notes the first batch's bytes, and of five how long sequences and their longest sample are.

    What is counted stays on the batch's device until it has arrived at the host: nothing waits.

    Args:
        transfer: Queues a copy to the host; tests pass a fake.
    """

    def __init__(self, *, transfer: Transfer = to_host) -> None:
        super().__init__()
        self._transfer = transfer
        self._hooks = Hooks({"on_train_batch_end": self._batch_ends})
        self._looks = 0
        self._found: list[Padded] = []
        self._needed: Pending | None = None

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._looks = 0
        self._hooks.add(called_by_trainer(trainer, self))

    @guarded
    def _batch_ends(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: Any
    ) -> None:
        if self._needed is not None:
            self._note(trainer, wait=False)
            return
        self._looks += 1
        if self._looks == 1 and self._output is not None:
            self._output.note(BATCH_NOTE, tensor_bytes(batch))
        with unseen():
            for one in padded_in(batch):
                # Of one device: from one to another would be to wait.
                if not self._found or one.needed.device == self._found[0].needed.device:
                    self._found.append(one)
            if self._found and self._looks == LOOKS:
                self._needed = self._transfer(torch.stack([one.needed for one in self._found]))
        if not self._found:
            self._release()
        elif self._needed is not None:
            self._note(trainer, wait=False)

    @override
    @guarded
    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._note(trainer, wait=True)
        self._release()

    def _note(self, trainer: Trainer, *, wait: bool) -> None:
        if self._needed is None or not (wait or self._needed.ready()):
            return
        needed = self._needed.result().tolist()
        paths: dict[str, list[tuple[Padded, int]]] = defaultdict(list)
        for one, count in zip(self._found, needed, strict=True):
            paths[one.path].append((one, count))
        place = padding_line(_first(trainer.train_dataloader))
        value = tuple(
            Padding(
                path=path,
                kind=ones[0][0].kind,
                samples=ones[0][0].samples,
                widths=tuple(one.width for one, _ in ones),
                needed=tuple(count for _, count in ones),
                place=place,
            )
            for path, ones in paths.items()
            # A tensor of one value is no sequence: a mask of full samples, kinds that are all 0.
            if all(count for _, count in ones)
        )
        if any(one.frac for one in value) and self._output is not None:
            self._output.note(PADDING_NOTE, value)
        self._release()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; no value of a batch is among it."""
        return self.__dict__ | {"_found": [], "_needed": None}

    @override
    def _release(self) -> None:
        self._hooks.drop()
        self._found, self._needed = [], None


def _first(loader: Any) -> Any:
    """Return the first of several loaders."""
    if isinstance(loader, dict):
        loader = list(loader.values())
    return loader[0] if isinstance(loader, list | tuple) and loader else loader
