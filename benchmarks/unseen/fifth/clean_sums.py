"""Sums written in digits, done by a transformer that reads and writes; problems drawn per batch.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 120
BATCH, DIGITS, WIDTH, START = 48, 6, 96, 12


class Sums(IterableDataset):
    """Draws whole batches of problems for ever, digits by arithmetic on tensors."""

    def __iter__(self):
        powers = 10 ** torch.arange(DIGITS)
        while True:
            left, right = torch.randint(10 ** (DIGITS - 1), (2, BATCH, 1))
            digits = [value // powers % 10 for value in (left, right, left + right)]
            plus = torch.full((BATCH, 1), 10)
            start = torch.full((BATCH, 1), START)
            yield torch.cat([digits[0], plus, digits[1]], dim=1), torch.cat([start, digits[2]], 1)


class Adder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.signs = nn.Embedding(START + 1, WIDTH)
        self.places = nn.Embedding(2 * DIGITS + 1, WIDTH)
        self.net = nn.Transformer(WIDTH, 4, 1, 2, 192, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, 10)
        mask = nn.Transformer.generate_square_subsequent_mask(DIGITS)
        self.register_buffer("future", mask)

    def read(self, signs):
        return self.signs(signs) + self.places.weight[: signs.shape[1]]

    def training_step(self, batch, batch_idx):
        problems, answers = batch
        told, asked = answers[:, :-1], answers[:, 1:]
        states = self.net(self.read(problems), self.read(told), tgt_mask=self.future)
        scores = self.head(states)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), asked.flatten())
        self.log("train_loss", loss, batch_size=BATCH)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Sums(), batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Adder(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
