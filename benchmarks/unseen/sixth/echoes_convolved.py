"""Who is speaking? Short recordings, put into a random room by its echo.

seen in: iver56/audiomentations issue 30, "Add support for using FFT to speed up convolution", and
the convolution of impulse responses in nussl/nussl issue 172

cause: the echo is added with np.convolve, which sums over the whole echo for every sample
right: names the fetching of items in the loader, or the line with np.convolve; its change takes
    that work out of the step (by FFT, whole batches, done beforehand, or worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 1200
COUNT, SAMPLES, ECHO, ROOMS, SPEAKERS = 240, 6000, 1200, 30, 12
LENGTH = 7200  # SAMPLES + ECHO


class Voices(Dataset):
    def __init__(self, by_fft: bool) -> None:
        self.random = np.random.default_rng(1)
        self.voices = self.random.standard_normal((COUNT, SAMPLES), dtype=np.float32)
        self.speakers = self.random.integers(SPEAKERS, size=COUNT)
        fading = np.exp(-np.arange(ECHO, dtype=np.float32) / 200)
        self.rooms = self.random.standard_normal((ROOMS, ECHO), dtype=np.float32) * fading
        self.spectra = np.fft.rfft(self.rooms, LENGTH) if by_fft else None

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index):
        voice, room = self.voices[index], self.random.integers(ROOMS)
        if self.spectra is None:
            heard = np.convolve(voice, self.rooms[room])  # cause
        else:
            heard = np.fft.irfft(np.fft.rfft(voice, LENGTH) * self.spectra[room])
        heard = heard[:SAMPLES].astype(np.float32)
        return torch.from_numpy(heard / np.abs(heard).max())[None], self.speakers[index]


class Speakers(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 32, 64, stride=16),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Conv1d(32, 64, 5, stride=2),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.Conv1d(64, 64, 5, stride=2),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, SPEAKERS),
        )

    def training_step(self, batch, batch_idx):
        heard, speakers = batch
        loss = nn.functional.cross_entropy(self.net(heard), speakers, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Voices(run.fixed), batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Speakers(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
