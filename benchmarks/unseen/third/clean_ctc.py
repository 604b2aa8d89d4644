"""Spoken digits to text by CTC: convolutions over mel bands, an LSTM, letters of any alignment.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 220
BANDS, FRAMES, LETTERS, LONGEST = 40, 120, 20, 14


class Speech(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv1d(BANDS, 96, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(96, 96, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.lstm = nn.LSTM(96, 96, batch_first=True, bidirectional=True)
        self.head = nn.Linear(192, LETTERS)

    def training_step(self, batch, batch_idx):
        sounds, frames, letters, lengths = batch
        hidden = self.lstm(self.front(sounds).mT)[0]
        log_p = self.head(hidden).log_softmax(-1).transpose(0, 1)
        loss = nn.functional.ctc_loss(log_p, letters, frames // 4, lengths, zero_infinity=True)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    count = 960
    clips = TensorDataset(
        torch.randn(count, BANDS, FRAMES),
        torch.randint(90, FRAMES + 1, (count,)),
        torch.randint(1, LETTERS, (count, LONGEST)),
        torch.randint(4, LONGEST + 1, (count,)),
    )
    data = DataLoader(clips, batch_size=12, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=2.0, **run.trainer).fit(Speech(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
