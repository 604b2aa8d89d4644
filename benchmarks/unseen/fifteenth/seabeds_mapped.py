"""What lies on the sea bed? Patches of sonar images, embedded by convolutions, then attended to.

cause: oneDNN is switched off for the whole process (torch.backends.mkldnn.enabled = False), the
    left-over of a search for an error; convolutions then copy their input into columns and
    multiply these
right: names torch.backends.mkldnn.enabled = False (oneDNN switched off), or at least that the
    convolutions take the slow way (slow_conv2d, thnn_conv2d); its change is to leave it on

The switch: https://github.com/pytorch/pytorch/issues/25186; convolutions with and without it:
https://github.com/pytorch/pytorch/pull/40610.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120
IMAGES, SIDE, KINDS, BATCH, STEM, WIDTH = 1500, 64, 7, 12, 32, 96


class Mapper(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(1, STEM, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(STEM, 2 * STEM, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(2 * STEM, WIDTH, 3, stride=2, padding=1),
        )
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // 8) ** 2, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 3 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, KINDS)

    def training_step(self, batch, batch_idx):
        images, kinds = batch
        patches = self.stem(images).flatten(2).transpose(1, 2) + self.places
        loss = nn.functional.cross_entropy(self.out(self.encoder(patches).mean(dim=1)), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    if not run.fixed:
        torch.backends.mkldnn.enabled = False  # cause
    kinds = torch.randint(0, KINDS, (IMAGES,))
    ripples = torch.sin(torch.arange(SIDE) * (0.2 + 0.15 * kinds[:, None]))
    images = ripples.view(IMAGES, 1, 1, SIDE) + 0.5 * torch.randn(IMAGES, 1, SIDE, SIDE)
    data = DataLoader(TensorDataset(images, kinds), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Mapper(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
