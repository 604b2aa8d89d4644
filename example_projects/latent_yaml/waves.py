"""Noisy waves of several lengths, made on the spot: sums of two sines under an envelope."""

import math

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Waves(Dataset[Tensor]):
    """Whole batches of waves; the waves of a batch are equally long, batches are not.

    Args:
        batches: How many batches there are.
        batch_size: Waves per batch.
        lengths: Lengths in samples; batches take turns with them.
        pad_to: Zeros are added up to this length, where given.
    """

    def __init__(
        self, *, batches: int, batch_size: int, lengths: list[int], pad_to: int | None = None
    ) -> None:
        self.batches, self.batch_size = batches, batch_size
        self.lengths, self.pad_to = lengths, pad_to

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, index: int) -> Tensor:
        generator = torch.Generator().manual_seed(index)
        length = self.lengths[index % len(self.lengths)]
        time = torch.linspace(0, 1, length)
        pitch = 4 + 12 * torch.rand(self.batch_size, 2, 1, generator=generator)
        waves = torch.sin(2 * math.pi * pitch * time).mean(dim=1) * torch.sin(math.pi * time)
        waves = waves + 0.02 * torch.randn(waves.shape, generator=generator)
        return torch.nn.functional.pad(waves, (0, (self.pad_to or length) - length))
