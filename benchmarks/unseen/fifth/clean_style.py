"""Pictures in the style of a painting: a frozen network judges what the other one makes.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120


def gram(maps):
    rows = maps.flatten(2)
    return rows @ rows.mT / rows.shape[2]


class Style(L.LightningModule):
    def __init__(self, painting) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 24, 5, padding=2),
            nn.InstanceNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 24, 3, padding=1),
            nn.InstanceNorm2d(24),
            nn.ReLU(),
            nn.Conv2d(24, 3, 5, padding=2),
        )
        self.judge = nn.ModuleList(
            nn.Sequential(nn.Conv2d(into, out, 3, stride=2, padding=1), nn.ReLU())
            for into, out in ((3, 16), (16, 32), (32, 48))
        ).requires_grad_(False)
        self.wanted = [gram(maps) for maps in self.features(painting[None])]

    def features(self, pictures):
        maps = [pictures]
        for layer in self.judge:
            maps.append(layer(maps[-1]))
        return maps[1:]

    def training_step(self, batch, batch_idx):
        (photos,) = batch
        with torch.no_grad():
            content = self.features(photos)[1]
        made = self.features(self.net(photos))
        loss = nn.functional.mse_loss(made[1], content)
        for maps, wanted in zip(made, self.wanted, strict=True):
            loss = loss + 10 * nn.functional.mse_loss(gram(maps), wanted.expand(len(maps), -1, -1))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    photos = TensorDataset(torch.rand(400, 3, 48, 48))
    data = DataLoader(photos, batch_size=8, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Style(torch.rand(3, 48, 48)), data)


if __name__ == "__main__":
    main(arguments(STEPS))
