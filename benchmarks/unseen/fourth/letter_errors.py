"""Handwritten lines to text by CTC, and how many letters are wrong, always up to date.

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
LETTERS, COLUMNS, LONGEST = 60, 72, 36


def text(codes):
    return "".join(chr(32 + code) for code in codes if code)


class Lines(L.LightningModule):
    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.front = nn.Sequential(nn.Conv1d(32, 96, 5, padding=2), nn.ReLU())
        self.gru = nn.GRU(96, 48, batch_first=True, bidirectional=True)
        self.head = nn.Linear(96, LETTERS)

    def training_step(self, batch, batch_idx):
        columns, letters = batch
        log_p = self.head(self.gru(self.front(columns).mT)[0]).log_softmax(-1)
        count = len(columns)
        loss = nn.functional.ctc_loss(
            log_p.transpose(0, 1),
            letters,
            torch.full((count,), COLUMNS),
            torch.full((count,), LONGEST),
        )
        self.log("train_loss", loss)
        if batch_idx % self.every == 0:
            self.log("letter_errors", self.wrong(log_p.detach(), letters))  # cause
        return loss

    def wrong(self, log_p, letters):
        best = [torch.unique_consecutive(line).tolist() for line in log_p.argmax(-1)]
        said = [text(line) for line in best]
        return char_error_rate(said, [text(line) for line in letters.tolist()])  # cause

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = TensorDataset(torch.randn(640, 32, COLUMNS), torch.randint(1, LETTERS, (640, LONGEST)))
    data = DataLoader(lines, batch_size=8, shuffle=True)
    model = Lines(every=50 if run.fixed else 1)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
