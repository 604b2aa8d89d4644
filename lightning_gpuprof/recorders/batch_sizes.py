"""Records how large the first batches are, and how much of them is padding."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, strided
from typing_extensions import override

from lightning_gpuprof.adapters.callback_hooks import BATCH_END
from lightning_gpuprof.recorders.recorder import Recorder
from lightning_gpuprof.records.facts import BatchSizes, Padding
from lightning_gpuprof.runtime.guard import guarded
from lightning_gpuprof.runtime.hooks import HookDispatcher, HookSet
from lightning_gpuprof.tensors import tensors_with_paths

BATCHES = 16
"""So many batches are measured."""
PADDING_EVERY = 4
"""Of these, one in so many is searched for padding."""
MOST_TENSORS, MOST_VALUES = 8, 1 << 20
MIN_LENGTH = 16
MIN_SIGNAL = 1_000
"""A matrix of floats counts as a batch of signals only if its rows are this long: shorter rows are
features, of which a model needs all."""
FEATURES = 8
"""Of the features at a position of a sequence, about so many are compared."""
MIN_PADDED_FRAC = 0.05
INSIDE_FRAC = 0.2
"""Rows that hold the padding value this often elsewhere are sparse, not padded."""


class BatchSizesRecorder(Recorder):
    """Records how many numbers each of the first 16 batches holds, and the padding of four of them.

    Padding is a run of equal values at the end, or at the beginning, of the rows of a tensor of
    sequences. Tensors of more than a million values are not searched for it.

    Costs: 2 us in each of the first 16 batches; in four of them 0.1 to 20 ms per tensor of
        sequences, by its size. A device counts by itself, and the host reads the counts at the end.
    Touches: nothing. It reads the tensors of batches, and counts in tensors of its own where they
        hold sequences.
    When: the end of the first 16 batches, and the end of training.
    """

    def __init__(self) -> None:
        self._hooks = HookSet({BATCH_END: self._measure})
        self._sizes: list[int] = []
        self._padding: dict[str, _Counts] = {}

    @override
    def on_train_start(self, trainer: Any, hooks: HookDispatcher) -> None:
        self.release()
        self._hooks.add(hooks)

    @guarded
    def _measure(self, trainer: Any, module: Any, outputs: Any, batch: Any, *_: Any) -> None:
        tensors = {
            "batch" + "".join(f"[{key!r}]" for key in path): tensor
            for path, tensor in tensors_with_paths(batch)
            if tensor.layout is strided
        }
        self._sizes.append(sum(tensor.numel() for tensor in tensors.values()))
        if len(self._sizes) % PADDING_EVERY == 1:
            for name, tensor in list(tensors.items())[:MOST_TENSORS]:
                self._search(name, tensor)
        if len(self._sizes) == BATCHES:
            self._hooks.drop()
            if all(tensor.device.type == "cpu" for tensor in tensors.values()):
                self._write()

    def _search(self, name: str, tensor: Tensor) -> None:
        for dimension, values in sequences_in(tensor):
            for at_end in (True, False):
                counts = self._padding.setdefault(
                    f"{name} {dimension} {at_end}", _Counts(name, tuple(tensor.shape), dimension)
                )
                counts.looks.append(count_padding(values if at_end else values.flip(1)))

    @override
    def on_train_end(self, trainer: Any) -> None:
        self._write()

    def _write(self) -> None:
        sizes, self._sizes = self._sizes, []
        padding = [counts.result() for counts in self._padding.values()]
        if sizes and self._context is not None:
            self._context.write(BatchSizes(tuple(sizes), tuple(filter(None, padding))))
        self._padding = {}

    @override
    def release(self) -> None:
        self._hooks.drop()
        self._sizes, self._padding = [], {}


class _Counts:
    """What `count_padding` returned for a tensor of several batches."""

    def __init__(self, name: str, shape: tuple[int, ...], dimension: int) -> None:
        self.name, self.shape, self.dimension = name, shape, dimension
        self.looks: list[Tensor] = []

    def result(self) -> Padding | None:
        """Return the sums over all batches; None if the tensor holds next to no padding."""
        looks = [look.tolist() for look in self.looks]
        columns = zip(*looks, strict=True)
        positions, padded, common, inside, varied = (sum(column) for column in columns)
        if (
            not varied
            or padded < MIN_PADDED_FRAC * positions
            or inside > INSIDE_FRAC * (positions - padded)
        ):
            return None
        return Padding(self.name, self.shape, self.dimension, positions, padded, common)


def sequences_in(tensor: Tensor) -> Iterator[tuple[int, Tensor]]:
    """Yield dimensions along which the rows of a tensor may be sequences.

    With each comes the tensor as (batch, position, feature), with some of its features.
    """
    if tensor.numel() > MOST_VALUES or tensor.dtype is torch.bool or tensor.is_complex():
        return
    values = tensor.detach() if tensor.requires_grad else tensor
    if values.dim() == 2 and len(values):
        if values.shape[1] >= (MIN_SIGNAL if values.is_floating_point() else MIN_LENGTH):
            yield 1, values.unsqueeze(2)
    elif values.dim() == 3 and values.numel():
        for dimension in (1, 2):
            if values.shape[dimension] >= MIN_LENGTH:
                moved = values.movedim(dimension, 1)
                yield dimension, moved[:, :, :: max(1, moved.shape[2] // FEATURES)]


def count_padding(values: Tensor) -> Tensor:
    """Count the padding at the end of sequences, on their device.

    The value of most last positions is taken as the padding's.

    Args:
        values: (batch, position, feature).

    Returns:
        All positions, those in runs of padding at the end of their row, those of them that are
        padding in every row of the batch, positions elsewhere with the padding's value, and whether
        the other values differ: those of a mask do not, whose ones could be taken for padding.

    >>> rows = torch.tensor([[5, 6, 0, 0], [7, 0, 8, 0], [9, 0, 0, 0]])
    >>> count_padding(rows.unsqueeze(2)).tolist()
    [12, 6, 3, 1, 1]
    """
    rows, length = values.shape[:2]
    equal = (values == values[:, -1].flatten().median()).all(2)
    other = ~equal
    runs = torch.where(equal.all(1), length, other.flip(1).to(torch.uint8).argmax(1))
    padded = runs.sum()
    every = torch.full_like(padded, rows * length)
    first = values.take(other.flatten().to(torch.uint8).argmax() * values.shape[2])
    varied = ((values != first).any(2) & other).any()
    inside = equal.count_nonzero() - padded
    return torch.stack([every, padded, rows * runs.amin(), inside, varied.to(padded.dtype)])
