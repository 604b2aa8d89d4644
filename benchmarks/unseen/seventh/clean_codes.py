"""Woven patterns in a few hundred words: an autoencoder with a learned book of codes.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 500
BATCH, SIDE, CODES, WIDTH = 16, 48, 256, 32


class Book(nn.Module):
    """The nearest code to each place, with the gradient passed straight through."""

    def __init__(self) -> None:
        super().__init__()
        self.codes = nn.Embedding(CODES, WIDTH)
        nn.init.uniform_(self.codes.weight, -1 / CODES, 1 / CODES)

    def forward(self, places):
        flat = places.movedim(1, 3)
        with torch.no_grad():
            codes = self.codes.weight
            far = codes.square().sum(dim=1) - 2 * flat.flatten(0, 2) @ codes.mT
            nearest = far.argmin(dim=1).view(flat.shape[:3])
        chosen = self.codes(nearest)
        loss = nn.functional.mse_loss(chosen, flat.detach())
        loss = loss + 0.25 * nn.functional.mse_loss(flat, chosen.detach())
        return (flat + (chosen - flat).detach()).movedim(3, 1), loss


class Patterns(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 24, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 48, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, WIDTH, 3, padding=1),
        )
        self.book = Book()
        self.decoder = nn.Sequential(
            nn.Conv2d(WIDTH, 48, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(48, 24, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(24, 3, 4, stride=2, padding=1),
        )

    def training_step(self, batch, batch_idx):
        (patterns,) = batch
        coded, book_loss = self.book(self.encoder(patterns))
        loss = nn.functional.mse_loss(self.decoder(coded), patterns)
        self.log_dict({"train_loss": loss, "book_loss": book_loss})
        return loss + book_loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    patterns = TensorDataset(torch.rand(2400, 3, SIDE, SIDE))
    data = DataLoader(patterns, batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Patterns(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
