"""Spoken commands, recorded at 44.1 kHz, are heard by a net that wants 16 kHz.

seen in: pytorch/audio issue 2359, "Cache Resample kernel inside transform.PitchShift()", and
lhotse-speech/lhotse pull request 657

cause: the filters of the resampling, which depend on the two rates alone, are made for every clip
accept: data-wait recomputed-constant @line
"""

import functools
import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 160
OLD, NEW = 441, 160
COMMANDS = 12


def filters(old, new, zeros=16):
    """Return one windowed sinc for each of the new samples among so many old ones."""
    cutoff = 0.97 * min(old, new)
    width = math.ceil(zeros * old / cutoff)
    at = torch.arange(-width, width + old, dtype=torch.float64) / old  # cause
    phase = torch.arange(new, dtype=torch.float64).unsqueeze(1) / new
    turns = ((at - phase) * cutoff).clamp(-zeros, zeros)  # cause
    window = torch.cos(turns * math.pi / zeros / 2).square()  # cause
    return (torch.sinc(turns) * window * (cutoff / old)).float().unsqueeze(1), width  # cause


class Commands(Dataset):
    def __init__(self, clips, made) -> None:
        self.clips, self.filters = clips, made

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index):
        bank, width = self.filters(OLD, NEW)  # cause
        padded = nn.functional.pad(self.clips[index], (width, width + OLD))
        heard = nn.functional.conv1d(padded[None, None], bank, stride=OLD)
        return heard[0].T.reshape(-1), index % COMMANDS


class Listener(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 32, 80, stride=8),
            nn.ReLU(),
            nn.Conv1d(32, 48, 9, stride=4),
            nn.ReLU(),
            nn.Conv1d(48, 64, 5, stride=2),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(64, COMMANDS),
        )

    def training_step(self, batch, batch_idx):
        sounds, commands = batch
        loss = nn.functional.cross_entropy(self.net(sounds.unsqueeze(1)), commands)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    clips = Commands(torch.randn(384, 17640), functools.cache(filters) if run.fixed else filters)
    data = DataLoader(clips, batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Listener(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
