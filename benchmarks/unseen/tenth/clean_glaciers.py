"""Where does the glacier calve? A small U-net over radar pictures, clean."""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 350
SCENES, HELD_OUT, SIDE, BATCH = 1600, 64, 40, 8


def convolved(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fine = convolved(2, 24)
        self.coarse = nn.Sequential(nn.MaxPool2d(2), convolved(24, 48), convolved(48, 48))
        self.up = nn.ConvTranspose2d(48, 24, 2, stride=2)
        self.joined = convolved(48, 24)
        self.out = nn.Conv2d(24, 1, 1)

    def forward(self, pictures):
        fine = self.fine(pictures)
        return self.out(self.joined(torch.cat([fine, self.up(self.coarse(fine))], dim=1)))


class Glaciers(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = UNet().to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        pictures, ice = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(pictures), ice)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pictures, ice = batch
        guessed = self.net(pictures)
        self.log("val_loss", nn.functional.binary_cross_entropy_with_logits(guessed, ice))
        self.log("val_accuracy", ((guessed > 0) == (ice > 0.5)).float().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def scenes(count):
    places = torch.arange(SIDE)
    fronts = 10 + 20 * torch.rand(count, 1, 1) + 3 * torch.sin(places / 5 + torch.rand(count, 1, 1))
    ice = (places[:, None] < fronts).float()[:, None]
    return TensorDataset(ice + 0.5 * torch.randn(count, 2, SIDE, SIDE), ice)


def main(run: Run) -> None:
    train = DataLoader(scenes(SCENES), batch_size=BATCH, shuffle=True)
    held_out = DataLoader(scenes(HELD_OUT), batch_size=2 * BATCH)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Glaciers(), train, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))
