"""Notices costly habits around autograd: graphs that are kept, and anomaly mode."""

import weakref
from typing import Any

import torch
from msgspec.structs import replace
from torch.utils.hooks import RemovableHandle
from typing_extensions import override

from lightning_gpuprof.callbacks._lightning import Callback, LightningModule, Trainer
from lightning_gpuprof.callbacks.dispatch import Hooks, called_by_trainer
from lightning_gpuprof.callbacks.guard import guarded
from lightning_gpuprof.callbacks.recording import Watch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.looks.debugging import own_line_like
from lightning_gpuprof.probes.looks.graph import GraphMark, graph_is_kept, holds_stacks
from lightning_gpuprof.records.debugging import AnomalyMode
from lightning_gpuprof.records.schema import ANOMALY_NOTE, KEPT_NOTE, RETAINED_NOTE

LATER = 3
"""Batch ends, with its own, after which a step's graph is looked for: the outputs of the last batch
may be kept, and a loss in a variable lives until the next one."""
AGAIN = 50
"""Batches after which anomaly detection that is on is looked at again: it costs more than that."""
_ANOMALY = r"\bset_anomaly_enabled\((?!False)|\b(set_)?detect_anomaly(\((?!False)|=(?!False))"
"""What a line looks like that switches anomaly detection on."""


class GraphWatch(Watch):
    """Looks at the backward passes of one batch in many, and notes what slows every one of them.

    `torch.autograd` in anomaly mode writes down the stack of each operator that makes a node, and
    runs a check after each backward function; it may be on in one pass alone, and is noted where
    two batches in a row have it, or have it no more. A graph kept by `retain_graph=True` holds its
    activations until the loss goes. A graph that outlives its step (a list of losses) is memory
    that grows. These two are noted once in the run's records, with the first step seen. Forward and
    backward run as always; the Trainer calls the hooks around backward for the batches looked at
    alone.

    Args:
        every: Batches per look; the first batch is looked at.

    Raises:
        ConfigError: `every` makes no sense.
    """

    def __init__(self, *, every: int = 50) -> None:
        if every < 1:
            raise ConfigError(f"GraphWatch(every={every}) would never look. Pass 1 or more.")
        super().__init__()
        self.every = every
        self._host: Callback | None = None
        self._looks = Hooks({"on_train_batch_end": self._look}, every=every)
        self._looking = Hooks(
            {
                "on_before_backward": self._before,
                "on_after_backward": self._after,
                "on_train_batch_end": self._looked,
            }
        )
        self._waiting = Hooks({"on_train_batch_end": self._later})
        self._again = Hooks({"on_train_batch_end": self._look}, every=min(every, AGAIN))
        self._node: Any = None
        self._mark: weakref.ref[GraphMark] | None = None
        self._ends, self._looked_later = 0, False
        self._in_forward = self._in_backward = False
        self._seen: AnomalyMode | None = None
        """Of the batch looked at; None where it had no backward pass."""
        self._on = self._confirms = False
        self._handle: RemovableHandle | None = None
        self._noted: set[str] = set()

    @override
    @guarded
    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        self._node = None
        self._looked_later = False
        self._seen = None
        self._on = self._confirms = False
        self._noted = set()

    @override
    @guarded
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._release()
        self._host = called_by_trainer(trainer, self)
        self._looks.add(self._host)
        self._look()

    @guarded
    def _look(self, *_: Any) -> None:
        if self._host is not None:
            self._looking.add(self._host)

    @guarded
    def _looked(self, *_: Any) -> None:
        self._node = None
        self._drop_handle()
        seen, self._seen = self._seen, None
        if seen is not None and (seen.forward or seen.backward) != self._on:
            # What one batch alone has, a check of the first one say, is no setting of the run.
            self._confirms = not self._confirms
            if self._confirms:
                return
            self._on = not self._on
            if self._on:
                if self._host is not None:
                    self._again.add(self._host)
                mode = replace(seen, place=own_line_like(_ANOMALY))
                self._output_note(ANOMALY_NOTE, "torch.autograd's anomaly detection is on", mode)
            else:
                self._again.drop()
                self._output_note(ANOMALY_NOTE, "anomaly detection is off again", False)
        self._confirms = False
        self._looking.drop()

    @guarded
    def _before(self, trainer: Trainer, pl_module: LightningModule, loss: torch.Tensor) -> None:
        self._node = loss.grad_fn
        if self._node is not None and self._mark is None and KEPT_NOTE not in self._noted:
            self._mark, self._ends = GraphMark.put(self._node), 0
            if self._host is not None:
                self._waiting.add(self._host)
        self._in_forward = self._node is not None and holds_stacks(self._node)
        self._in_backward = torch.is_anomaly_enabled()
        self._drop_handle()
        if loss.requires_grad:
            # It may be on around the backward pass alone: only inside is that seen.
            hooked: Any = loss
            self._handle = hooked.register_hook(self._in_pass)

    def _in_pass(self, _: torch.Tensor) -> None:
        self._in_backward |= torch.is_anomaly_enabled()

    @guarded
    def _after(self, trainer: Trainer, pl_module: LightningModule) -> None:
        node, self._node = self._node, None
        self._drop_handle()
        before = self._seen or AnomalyMode(forward=False, backward=False)
        self._seen = AnomalyMode(
            before.forward or self._in_forward, before.backward or self._in_backward
        )
        if node is not None and RETAINED_NOTE not in self._noted and graph_is_kept(node):
            self._note(RETAINED_NOTE, "backward kept its graph (retain_graph=True)")

    @guarded
    def _later(self, *_: Any) -> None:
        self._ends += 1
        if self._mark is None or self._ends < LATER:
            return
        if self._mark() is not None:
            self._note(KEPT_NOTE, "the graph of a step was still there steps later")
        elif not self._looked_later:
            self._note(KEPT_NOTE, "no graph outlived its step", value=False)
        self._forget_mark()

    def _note(self, name: str, message: str, *, value: Any = True) -> None:
        if name not in self._noted:
            if value:
                self._noted.add(name)
            self._output_note(name, message, value)

    def _output_note(self, name: str, message: str, value: Any) -> None:
        if self._output is not None:
            self._output.note(name, value, message)

    def _drop_handle(self) -> None:
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    def _forget_mark(self) -> None:
        self._mark, self._looked_later = None, True
        self._waiting.drop()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made of; one that is made amid a look has none of it."""
        return self.__dict__ | {"_node": None, "_mark": None, "_handle": None}

    @override
    def _release(self) -> None:
        self._node = None
        self._drop_handle()
        self._looking.drop()
        if self._mark is not None:
            self._forget_mark()
        self._looks.drop()
        self._again.drop()
        self._host = None
