"""Whether torch.autograd's anomaly detection is on."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.autograd import STACK_OF_NODE
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import AnomalyMode
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet

AGAIN = 50
"""Batches between two reads once it was on: it may have been meant for the first batch alone."""


class AnomalyDetection(Recorder):
    """Records whether anomaly detection is on in the first batch, and whether it stays on.

    Costs: some 20 us in the first batch; where it is on, the same in one batch of 50.
    Touches: nothing; it asks torch for the setting, and the loss's graph for the stack it holds.
    When: before the first backward pass.
    """

    def __init__(self) -> None:
        self._once = HookSet({"on_before_backward": self._read})
        self._dispatcher: HookDispatcher | None = None
        self._on = False

    @override
    def train_starts(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._dispatcher, self._on = hooks, False
        self._read_next()

    @guarded
    def _read_next(self) -> None:
        if self._dispatcher is not None:
            self._once.add(self._dispatcher)

    @guarded
    def _read(self, trainer: Any, module: object, loss: torch.Tensor) -> None:
        self._once.drop()
        in_forward = STACK_OF_NODE in getattr(loss.grad_fn, "metadata", ())
        on, was = in_forward or torch.is_anomaly_enabled(), self._on
        if on == was or self._context is None or self._dispatcher is None:
            return
        self._on = on
        self._context.write(AnomalyMode(on))
        calls = self._dispatcher.periodic
        if on:
            calls.add(self._read_next, AGAIN)
        else:
            calls.drop(self._read_next)

    @override
    def release(self) -> None:
        self._once.drop()
        if self._dispatcher is not None:
            self._dispatcher.periodic.drop(self._read_next)
        self._dispatcher = None
