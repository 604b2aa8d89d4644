"""Records samples of what `predict_step` returns, so that two runs can be compared."""

from typing import Any

import torch
from torch import Tensor
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_END
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.decode import MOST_FLOAT
from lightning_gpuprof.records.facts import OutputSample, PredictOutputs
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet
from lightning_gpuprof.tensors import tensors_with_paths

FIRST_BATCHES = 16
MOST_VALUES, MOST_TENSORS = 64, 8
_Place = tuple[int, int, str, str, tuple[int, ...]]
"""Loader, batch and name, then type and shape."""
_CHECKSUM_MASK = 2**62 - 1
_AS_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Types of the same size, by the bytes of an element."""


def is_sampled(batch: int) -> bool:
    """Return whether a batch is sampled: the first ones, then those at powers of two.

    This depends on nothing but the batch, so that two runs sample the same batches.

    >>> [batch for batch in range(200) if is_sampled(batch)][-5:]
    [15, 16, 32, 64, 128]
    """
    return batch < FIRST_BATCHES or batch & (batch - 1) == 0


class PredictOutputsRecorder(Recorder):
    """Records a checksum and a few values of the tensors that `predict_step` returns.

    They are computed on the device and read when `predict` ends, so that no batch waits for them.

    Costs: three operators for each tensor in a sampled batch: the first 16, then one at every power
        of two.
    Touches: nothing. It reads tensors.
    When: the end of sampled batches of `predict`.
    Switch: outputs=True
    """

    def __init__(self) -> None:
        self._each_batch = HookSet({BATCH_END: self._batch_ends})
        self._samples: list[tuple[_Place, Tensor, Tensor]] = []

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        if self._context is not None and self._context.stage == "predict":
            self._each_batch.add(hooks)

    @guarded
    def _batch_ends(
        self,
        trainer: Any,
        module: object,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if not is_sampled(batch_idx):
            return
        tensors = [item for item in tensors_with_paths(outputs) if _is_plain(item[1])]
        for path, tensor in tensors[:MOST_TENSORS]:
            described = str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape)
            place = dataloader_idx, batch_idx, ".".join(map(str, path)), *described
            self._samples.append((place, checksum(tensor), some_values(tensor)))

    @override
    def on_train_end(self, trainer: Any) -> None:
        if self._context is None or not self._samples:
            return
        samples = tuple(
            OutputSample(
                *place,
                checksum=int(total) & _CHECKSUM_MASK,
                values=tuple(_finite(value) for value in values.tolist()),
            )
            for place, total, values in self._samples
        )
        self._context.write(PredictOutputs(samples))

    @override
    def release(self) -> None:
        self._each_batch.drop()
        self._samples = []


def _finite(value: float) -> float | None:
    return value if abs(value) < MOST_FLOAT else None


def _is_plain(tensor: Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_quantized and tensor.numel() > 0


def checksum(tensor: Tensor) -> Tensor:
    """Return the sum of the bits of all elements, read as integers, as a tensor of one int64.

    Equal tensors have equal sums. Unequal ones hardly ever do, unless their elements are in another
    order.
    """
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    bits = plain.detach().contiguous().view(_AS_INTEGERS[plain.element_size()])
    return bits.sum(dtype=torch.int64)


def some_values(tensor: Tensor) -> Tensor:
    """Return at most `MOST_VALUES` elements at equal distances, as float64."""
    plain = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    flat = plain.detach().reshape(-1)
    return flat[:: -(-flat.numel() // MOST_VALUES)].to(torch.float64)
