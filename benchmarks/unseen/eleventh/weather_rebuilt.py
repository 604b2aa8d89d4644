"""Weather maps through a bottleneck: an autoencoder whose epoch loss is the mean of its steps'.

cause: every step's loss is kept with its graph until the epoch ends, and the graph is kept whole
    with its activations by retain_graph=True, so the memory grows and fresh pages are taken
right: the retained graph or the memory that grows by step; names the list of losses, the
    backward with retain_graph=True or a marked line; the change keeps loss.detach() and drops
    retain_graph
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 360
MAPS, FIELDS, HIGH, WIDE = 480, 5, 32, 64


def down(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(into, out, 3, stride=2, padding=1), nn.SiLU())


def up(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.ConvTranspose2d(into, out, 2, stride=2), nn.SiLU())


class Weather(L.LightningModule):
    def __init__(self, keep_graph: bool) -> None:
        super().__init__()
        self.keep_graph = keep_graph
        self.losses = []
        self.net = nn.Sequential(
            nn.Conv2d(FIELDS, 16, 3, padding=1),
            nn.SiLU(),
            down(16, 32),
            down(32, 48),
            nn.Conv2d(48, 48, 3, padding=1),
            nn.SiLU(),
            up(48, 32),
            up(32, 16),
            nn.Conv2d(16, FIELDS, 3, padding=1),
        )

    def training_step(self, batch, batch_idx):
        (maps,) = batch
        rebuilt = self.net(maps)
        level = (rebuilt - maps).square().mean()
        slopes = (rebuilt.diff(dim=3) - maps.diff(dim=3)).square().mean()
        loss = level + 0.5 * slopes
        self.losses.append(loss if self.keep_graph else loss.detach())  # cause
        return loss

    def backward(self, loss):
        loss.backward(retain_graph=self.keep_graph)  # cause

    def on_train_epoch_end(self):
        self.log("train_loss", torch.stack(self.losses).mean().detach())
        self.losses.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    rows = torch.linspace(0, 6, HIGH)[:, None] + torch.linspace(0, 9, WIDE)
    maps = torch.sin(rows + 6 * torch.rand(MAPS, FIELDS, 1, 1))
    data = DataLoader(TensorDataset(maps), batch_size=8, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Weather(keep_graph=not run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
