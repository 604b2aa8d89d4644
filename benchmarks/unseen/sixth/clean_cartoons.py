"""Cartoons out of few codes: a network with a dictionary (VQ-VAE), validated after long epochs.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 720
SIDE, CODES, WIDTH = 32, 128, 32


class Cartoons(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(3, 32, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, WIDTH, 4, stride=2, padding=1),
        )
        self.codes = nn.Embedding(CODES, WIDTH)
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(WIDTH, 48, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(48, 32, 3, padding=1),
            nn.ReLU(),
            nn.ConvTranspose2d(32, 3, 4, stride=2, padding=1),
        )

    def errors(self, cartoons):
        seen = self.encoder(cartoons).movedim(1, -1)
        nearest = torch.cdist(seen.detach().flatten(0, 2), self.codes.weight.detach()).argmin(dim=1)
        chosen = self.codes(nearest).view_as(seen)
        through = seen + (chosen - seen).detach()
        error = nn.functional.mse_loss(self.decoder(through.movedim(-1, 1)), cartoons)
        moved = nn.functional.mse_loss(chosen, seen.detach())
        return error, moved + 0.25 * nn.functional.mse_loss(seen, chosen.detach())

    def training_step(self, batch, batch_idx):
        error, bound = self.errors(batch[0])
        self.log("train_error", error)
        return error + bound

    def validation_step(self, batch, batch_idx):
        self.log("val_error", self.errors(batch[0])[0])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    cartoons = TensorDataset(torch.rand(1000, 3, SIDE, SIDE))
    later = TensorDataset(torch.rand(60, 3, SIDE, SIDE))
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(
        Cartoons(),
        DataLoader(cartoons, batch_size=16, shuffle=True),
        DataLoader(later, batch_size=20),
    )


if __name__ == "__main__":
    main(arguments(STEPS))
