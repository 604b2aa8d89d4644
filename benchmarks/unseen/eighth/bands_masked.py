"""Spoken commands as spectrograms, with bands of time and of pitch blotted out for each one anew.

seen in: a guise of: a slow batch-transfer hook (on_after_batch_transfer)

cause: the data module blots out the bands in on_after_batch_transfer, spectrogram by spectrogram
    and band by band, drawing each number by itself
right: says that the batch-transfer hook of the data module is the cost, or points at a marked
    line first; its change masks the whole batch at once
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 500
PITCHES, TIMES, COMMANDS, BATCH = 40, 64, 12, 48
BANDS, WIDEST = 3, 8  # of time, and as many of pitch


class Spoken(Dataset):
    def __init__(self, count: int) -> None:
        self.sounds = torch.randn(count, PITCHES, TIMES)
        self.commands = torch.randint(COMMANDS, (count,))

    def __len__(self) -> int:
        return len(self.commands)

    def __getitems__(self, indices):
        return {"sounds": self.sounds[indices], "commands": self.commands[indices]}


def covered(count: int, length: int) -> torch.Tensor:
    """Return (count, length): where one of the bands drawn lies."""
    widths = torch.randint(WIDEST, (count, BANDS, 1))
    starts = torch.randint(length - WIDEST, (count, BANDS, 1))
    places = torch.arange(length)
    return ((places >= starts) & (places < starts + widths)).any(dim=1)


class Commands(L.LightningDataModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once

    def train_dataloader(self):
        return DataLoader(Spoken(4800), BATCH, shuffle=True, collate_fn=lambda batch: batch)

    def on_after_batch_transfer(self, batch, dataloader_idx):
        sounds = batch["sounds"]
        if self.at_once:
            count = len(sounds)
            blotted = covered(count, PITCHES)[:, :, None] | covered(count, TIMES)[:, None]
            return {**batch, "sounds": sounds.masked_fill(blotted, 0.0)}
        for sound in sounds:
            for _ in range(BANDS):
                width = torch.randint(WIDEST, (1,)).item()  # cause
                start = torch.randint(PITCHES - WIDEST, (1,)).item()  # cause
                sound[start : start + width] = 0.0  # cause
                width = torch.randint(WIDEST, (1,)).item()  # cause
                start = torch.randint(TIMES - WIDEST, (1,)).item()  # cause
                sound[:, start : start + width] = 0.0  # cause
        return batch


class Heard(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.convolved = nn.Sequential(
            nn.Conv1d(PITCHES, 64, 5, padding=2),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Conv1d(64, 64, 3, stride=2, padding=1),
            nn.BatchNorm1d(64),
            nn.ReLU(),
        )
        self.recurrent = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, COMMANDS)

    def training_step(self, batch, batch_idx):
        states, _ = self.recurrent(self.convolved(batch["sounds"]).mT)
        loss = nn.functional.cross_entropy(self.head(states[:, -1]), batch["commands"])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=5.0, **run.trainer)
    trainer.fit(Heard(), Commands(run.fixed))


if __name__ == "__main__":
    main(arguments(STEPS))
