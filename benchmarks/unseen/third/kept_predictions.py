"""Reading old handwriting: rows of pixels to letters, with the rate of wrong letters.

seen in: Lightning-AI/pytorch-lightning issue 20076, "training time increase epoch by epoch"

cause: the predictions of a validation are never cleared, so each one scores all earlier ones again
accept: frequent-validation memory-growth slow-python @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
GROWS = True
ROWS, LETTERS, LENGTH = 32, 30, 16


def edits(ours: list[int], theirs: list[int]) -> int:
    """Return how many letters must be changed, added or left out."""
    row = list(range(len(theirs) + 1))
    for i, letter in enumerate(ours, 1):  # cause
        before, row[0] = row[0], i  # cause
        for j, other in enumerate(theirs, 1):  # cause
            best = min(row[j] + 1, row[j - 1] + 1, before + (letter != other))  # cause
            before, row[j] = row[j], best  # cause
    return row[-1]


class Handwriting(L.LightningModule):
    def __init__(self, clear: bool) -> None:
        super().__init__()
        self.clear = clear
        self.read: list[tuple[list[int], list[int]]] = []
        self.look = nn.Conv2d(1, 24, 5, stride=(2, 2), padding=2)
        self.lstm = nn.LSTM(24 * ROWS // 2, 72, batch_first=True, bidirectional=True)
        self.head = nn.Linear(144, LETTERS)

    def forward(self, lines):
        seen = self.look(lines.unsqueeze(1)).relu().flatten(1, 2).mT
        return self.head(self.lstm(seen)[0])

    def training_step(self, batch, batch_idx):
        lines, letters = batch
        loss = nn.functional.cross_entropy(self(lines).flatten(0, 1), letters.flatten())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        lines, letters = batch
        ours = self(lines).argmax(-1).tolist()
        self.read.extend(zip(ours, letters.tolist(), strict=True))

    def on_validation_epoch_end(self):
        wrong = sum(edits(ours, theirs) for ours, theirs in self.read)  # cause
        self.log("wrong_letters", wrong / (LENGTH * len(self.read)))
        if self.clear:
            self.read.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def lines(count: int) -> TensorDataset:
    return TensorDataset(
        torch.rand(count, ROWS, 2 * LENGTH), torch.randint(LETTERS, (count, LENGTH))
    )


def main(run: Run) -> None:
    training = DataLoader(lines(320), batch_size=16, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, num_sanity_val_steps=0, **run.trainer)
    trainer.fit(Handwriting(clear=run.fixed), training, DataLoader(lines(32), batch_size=16))


if __name__ == "__main__":
    main(arguments(STEPS))
