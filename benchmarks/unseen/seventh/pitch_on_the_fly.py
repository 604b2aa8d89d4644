"""A singing voice coded frame by frame: its loudness and pitch go in, its spectrum comes out.

seen in: facebookresearch/speech-resynthesis issue 4, "Running yaapt on-the-fly extremely slows the
training" (an epoch took 2657 s, and 36 s from a cache), and librosa/librosa issue 1798

cause: the dataset estimates the pitch of a recording each time that it is fetched, though pitch
    does not change
right: says that the pitch estimation of the dataset takes the time, or points at a marked line
    first; its change estimates each recording once (beforehand, or with a cache) and crops the
    track
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
RATE, HOP, FRAME = 16_000, 160, 640
FRAMES, CROP, BATCH, WIDTH = 120, 48, 16, 96
LAGS = slice(RATE // 500, RATE // 70)  # between 70 and 500 Hz


def framed(sound):
    return np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::HOP]


def pitch(sound):
    """Return the pitch of each frame in octaves, by the peak of its normalized autocorrelation."""
    frames = framed(sound) * np.hanning(FRAME).astype(np.float32)  # cause
    power = np.abs(np.fft.rfft(frames, 2 * FRAME)) ** 2  # cause
    alike = np.fft.irfft(power)[:, LAGS]  # cause
    alike /= np.maximum(np.square(frames).sum(axis=1, keepdims=True), 1e-6)
    voiced = alike.max(axis=1) > 0.3
    track = np.log2(RATE / (LAGS.start + alike.argmax(axis=1)))
    return np.where(voiced, track, 0).astype(np.float32)


class Songs(Dataset):
    """Crops of recordings with the pitch of their frames."""

    def __init__(self, number: int, pitch_once: bool) -> None:
        rng = np.random.default_rng(1)
        times = np.arange(FRAMES * HOP + FRAME, dtype=np.float32) / RATE
        notes = rng.uniform(90, 400, (number, 1)).astype(np.float32)
        self.sounds = np.sin(2 * np.pi * notes * times, dtype=np.float32)
        self.sounds += 0.1 * rng.standard_normal(self.sounds.shape, dtype=np.float32)
        self.tracks = [pitch(sound) for sound in self.sounds] if pitch_once else None

    def __len__(self) -> int:
        return len(self.sounds)

    def __getitem__(self, number):
        first = np.random.randint(FRAMES - CROP)
        sound = self.sounds[number, first * HOP : (first + CROP - 1) * HOP + FRAME]
        if self.tracks is not None:
            return sound, self.tracks[number][first : first + CROP]
        return sound, pitch(sound)  # cause


class Voice(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(FRAME))
        self.reader = nn.GRU(2, WIDTH, batch_first=True, bidirectional=True)
        self.writer = nn.Sequential(
            nn.Linear(2 * WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, FRAME // 2 + 1)
        )

    def training_step(self, batch, batch_idx):
        sounds, pitches = batch
        spectrum = torch.fft.rfft(sounds.unfold(1, FRAME, HOP) * self.window).abs().log1p()
        loudness = spectrum.mean(dim=2)
        read, _ = self.reader(torch.stack([loudness, pitches], dim=2))
        loss = nn.functional.l1_loss(self.writer(read), spectrum)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Songs(1200, run.fixed), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Voice(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
