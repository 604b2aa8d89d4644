"""The workload with many small parameters: what optimizers and per-parameter loops suffer from."""

from typing import Any

import torch
from torch import Tensor, nn
from workload import Workload


class ManyParameters(Workload):
    def __init__(self, *, extra: int) -> None:
        super().__init__()
        self.gains = nn.ParameterList(torch.randn(16) for _ in range(extra))

    def loss(self, batch: Any) -> Tensor:
        if not len(self.gains):
            return super().loss(batch)
        return super().loss(batch) + 1e-6 * torch.cat(list(self.gains)).square().mean()
