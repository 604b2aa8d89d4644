"""Whether torch.autograd's anomaly detection is on."""

from typing import Any

import torch
from typing_extensions import override

from lightning_gpuprof.adapters.lightning import Callback
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import AnomalyMode
from lightning_gpuprof.session.guard import guarded
from lightning_gpuprof.session.hooks import Hooks
from lightning_gpuprof.session.places import own_line_like

AGAIN = 50
"""Batches between two reads once it was on: it may have been meant for the first batch alone."""
_STACK = "traceback_"
"""Key of a node's metadata under which anomaly detection keeps the stack that made it."""
_SWITCH = r"\bset_anomaly_enabled\((?!False)|\b(set_)?detect_anomaly(\((?!False)|=(?!False))"


class AnomalyDetection(Recorder):
    """Records in which pass of the first batch anomaly detection is on, and whether it stays on.

    Costs: some 20 us in the first batch; where it is on, the same in one batch of 50.
    Touches: nothing; it asks torch for the setting, and the loss's graph for the stack it holds.
    When: before the first backward pass.
    """

    def __init__(self) -> None:
        self._look = Hooks({"on_before_backward": self._read})
        self._again = Hooks({"on_train_batch_end": self._look_again}, every=AGAIN)
        self._host: Callback | None = None
        self._was: AnomalyMode | None = None

    @override
    def train_starts(self, trainer: Any, host: Callback) -> None:
        self.release()
        self._host, self._was = host, None
        self._look.add(host)

    @guarded
    def _look_again(self, *_: Any) -> None:
        if self._host is not None:
            self._look.add(self._host)

    @guarded
    def _read(self, trainer: Any, module: object, loss: torch.Tensor) -> None:
        self._look.drop()
        forward = _STACK in getattr(loss.grad_fn, "metadata", ())
        backward = torch.is_anomaly_enabled()
        if self._output is None or self._host is None:
            return
        if self._was is None and (forward or backward):
            self._was = AnomalyMode(forward, backward, own_line_like(_SWITCH))
            self._output.write(self._was)
            self._again.add(self._host)
        elif self._was is not None and not (forward or backward):
            self._again.drop()
            self._output.write(AnomalyMode(forward=False, backward=False))

    @override
    def release(self) -> None:
        self._look.drop()
        self._again.drop()
        self._host = None
