"""Sharper pictures: twice the size, judged by the features of a network that is never trained.

seen in: KupynOrest/DeblurGAN issue 77 ("perceptual loss does not set the requires_grad=False"),
NVIDIA/pix2pixHD issue 102 and tensorlayer/SRGAN issue 95

cause: the network that judges takes no part in the optimizer, yet its parameters require gradients,
    so that every backward pass computes them
right: says that gradients are computed for parameters that no optimizer uses (or that this network
    is not frozen), with the advice to freeze it (requires_grad_(False))
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160


def judge() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, padding=1),
    ).eval()


class Sharper(L.LightningModule):
    def __init__(self, frozen: bool) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 12, 3, padding=1),
            nn.PixelShuffle(2),
        )
        self.judge = judge()  # cause
        if frozen:
            self.judge.requires_grad_(False)

    def training_step(self, batch, batch_idx):
        small, large = batch
        made = self.net(small)
        with torch.no_grad():
            wanted = self.judge(large)
        seen = nn.functional.l1_loss(self.judge(made), wanted)  # cause
        loss = nn.functional.mse_loss(made, large) + 0.1 * seen
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    large = torch.rand(400, 3, 48, 48)
    small = nn.functional.avg_pool2d(large, 2)
    data = DataLoader(TensorDataset(small, large), batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Sharper(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
