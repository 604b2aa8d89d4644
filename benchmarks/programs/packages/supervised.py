"""What the programs share whose package brings networks or data alone."""

import torch
from lightning.pytorch import LightningModule


class Trained(LightningModule):
    """Trains a network whose call on a batch returns the loss."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def training_step(self, batch, batch_idx):
        return self.net(batch)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
