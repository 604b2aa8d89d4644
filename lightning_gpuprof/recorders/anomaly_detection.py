"""Records whether the anomaly detection of torch.autograd is on."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.autograd import STACK_OF_NODE
from lightning_gpuprof.adapters.callback_hooks import BEFORE_BACKWARD
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import AnomalyMode
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet

CHECK_EVERY = 50
"""If anomaly detection is on in the first batch, it is checked again after this many batches, since
it may have been meant for the first batch only."""


class AnomalyDetection(Recorder):
    """Records whether anomaly detection is on in the first batch, and whether it stays on.

    Costs: about 20 us in the first batch. If anomaly detection is on, also in one batch of 50.
    Touches: nothing. It reads torch's setting, and whether the graph of the loss holds a stack.
    When: before the first backward pass.
    """

    def __init__(self) -> None:
        self._next_backward = HookSet({BEFORE_BACKWARD: self._check})
        self._dispatcher: HookDispatcher | None = None
        self._on = False

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._dispatcher, self._on = hooks, False
        self._check_next_backward()

    @guarded
    def _check_next_backward(self) -> None:
        if self._dispatcher is not None:
            self._next_backward.add(self._dispatcher)

    @guarded
    def _check(self, trainer: Any, module: object, loss: torch.Tensor) -> None:
        self._next_backward.drop()
        was_on_in_forward = STACK_OF_NODE in getattr(loss.grad_fn, "metadata", ())
        on = was_on_in_forward or torch.is_anomaly_enabled()
        if on == self._on or self._context is None or self._dispatcher is None:
            return
        self._on = on
        self._context.write(AnomalyMode(on))
        calls = self._dispatcher.periodic
        if on:
            calls.add(self._check_next_backward, CHECK_EVERY)
        else:
            calls.drop(self._check_next_backward)

    @override
    def release(self) -> None:
        self._next_backward.drop()
        if self._dispatcher is not None:
            self._dispatcher.periodic.drop(self._check_next_backward)
        self._dispatcher = None
