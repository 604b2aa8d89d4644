"""What the programs share whose package brings networks or data alone."""

from typing import Any

import torch
from lightning.pytorch import LightningModule


class Trained(LightningModule):
    """Trains a network whose call on a batch returns the loss."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        return self.net(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters())
