"""A CNN; a callback plots how well the training batch is fitted after the update.

cause: the callback runs the network once more in eval mode on every training batch, for one scalar
accept: slow-callback
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 170


class FitAfterUpdate(L.Callback):
    def __init__(self, every: int) -> None:
        self.every = every

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx % self.every:
            return
        x, y = batch
        pl_module.eval()
        scores = pl_module(x)  # cause
        pl_module.train()
        pl_module.log("fit_after_update", (scores.argmax(1) == y).float().mean())


class Textures(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 3, 2, 1), nn.BatchNorm2d(24), nn.ReLU(),
            nn.Conv2d(24, 48, 3, 1, 1), nn.BatchNorm2d(48), nn.ReLU(),
            nn.Conv2d(48, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 20),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(1600, 3, 40, 40), torch.randint(20, (1600,)))
    data = DataLoader(images, batch_size=40, shuffle=True)
    callback = FitAfterUpdate(every=20 if run.fixed else 1)
    L.Trainer(callbacks=[callback, *run.callbacks], **run.trainer).fit(Textures(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
