"""Handwriting, pen stroke by pen stroke: an LSTM writes a mixture of places for the pen.

accept: none
"""

import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
BATCH, STROKES, WIDTH, PARTS = 32, 60, 160, 16


class Handwriting(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.LSTM(3, WIDTH, num_layers=2, batch_first=True)
        self.head = nn.Linear(WIDTH, 5 * PARTS + 1)

    def training_step(self, batch, batch_idx):
        (strokes,) = batch
        read, _ = self.reader(strokes[:, :-1])
        *mixture, lifted = self.head(read).split([PARTS, 2 * PARTS, 2 * PARTS, 1], dim=2)
        moves, lifts = strokes[:, 1:, :2], strokes[:, 1:, 2]
        shares, places, spreads = mixture
        places, spreads = (one.unflatten(2, (PARTS, 2)) for one in (places, spreads))
        away = (moves[:, :, None] - places) * torch.exp(-spreads)
        chances = -(0.5 * away.square() + spreads).sum(dim=3) - math.log(2 * math.pi)
        likely = torch.logsumexp(shares.log_softmax(dim=2) + chances, dim=2)
        lift_loss = nn.functional.binary_cross_entropy_with_logits(lifted.squeeze(2), lifts)
        loss = lift_loss - likely.mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    moves = torch.randn(6400, STROKES, 2)
    lifts = (torch.rand(6400, STROKES, 1) < 0.1).float()
    lines = TensorDataset(torch.cat([moves, lifts], dim=2))
    data = DataLoader(lines, batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=5.0, **run.trainer)
    trainer.fit(Handwriting(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
