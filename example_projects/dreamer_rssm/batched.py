"""The same world model: whole episodes at once, and sums that stay on the device."""

import torch
from rssm import WorldModel
from torch import Tensor

from lightning_gpuprof import DeferredScalars


class BatchedWorldModel(WorldModel):
    """Pictures of all moments are one batch to a convolution; only the recurrence is a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.sums = DeferredScalars(*self.sums)

    def encode(self, pictures: Tensor) -> Tensor:
        return self.encoder(pictures.flatten(0, 1)).unflatten(0, pictures.shape[:2])

    def decode(self, states: Tensor) -> Tensor:
        return self.decoder(states.flatten(0, 1)).unflatten(0, states.shape[:2])

    def remember(self, parts: dict[str, Tensor]) -> None:
        for name, part in parts.items():
            self.sums[name] += part

    def epoch_sums(self) -> dict[str, float]:
        return self.sums.result()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
