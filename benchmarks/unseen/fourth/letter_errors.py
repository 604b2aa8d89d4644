"""Typed lines to text, a letter for each box, and how many letters are wrong, always up to date.

seen in: mozilla/DeepSpeech issue 776, "WER calculation seems to be a computational bottleneck"

cause: every training batch is put into strings and held against the right ones, letter by letter
accept: slow-python @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.functional.text import char_error_rate

STEPS = 180
LETTERS, LONGEST = 60, 48


def text(codes):
    return "".join(chr(32 + code) for code in codes)


class Lines(L.LightningModule):
    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.net = nn.Sequential(
            nn.Conv1d(32, 96, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(96, 96, 5, padding=2),
            nn.ReLU(),
            nn.Conv1d(96, LETTERS, 1),
        )

    def training_step(self, batch, batch_idx):
        columns, letters = batch
        scores = self.net(columns)
        loss = nn.functional.cross_entropy(scores, letters)
        self.log("train_loss", loss)
        if batch_idx % self.every == 0:
            self.log("letter_errors", self.wrong(scores.detach(), letters))  # cause
        return loss

    def wrong(self, scores, letters):
        said = [text(line) for line in scores.argmax(1).tolist()]
        return char_error_rate(said, [text(line) for line in letters.tolist()])  # cause

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = TensorDataset(torch.randn(640, 32, 2 * LONGEST), torch.randint(LETTERS, (640, LONGEST)))
    data = DataLoader(lines, batch_size=12, shuffle=True)
    model = Lines(every=50 if run.fixed else 1)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
