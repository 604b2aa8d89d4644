"""Which bird sings? Pieces of one second out of recordings of the better part of a minute.

seen in: CHeggan/MetaAudio-A-Few-Shot-Audio-Classification-Benchmark issue 16 (files loaded, then a
random piece kept, and "the loading time of batches is long") and kitzeslab/opensoundscape issue 403
(the whole file loaded for a clip of it)

cause: the whole recording is read and converted for each piece of one second
right: names the fetching of items in the loader (the stream of pieces), or the lines that read the
    file; its change takes that work out of the step (only the piece read, recordings kept in
    memory, or worker processes)
"""

import random
import wave
from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 260
BIRDS, RATE, SECONDS = 16, 16_000, 48


class Pieces(IterableDataset):
    """Draws a bird and a second of its recording, for ever."""

    def __init__(self, paths, seek: bool) -> None:
        self.paths, self.seek = paths, seek

    def __iter__(self):
        chance = random.Random(4)
        while True:
            bird = chance.randrange(len(self.paths))
            start = chance.randrange(RATE * (SECONDS - 1))
            yield self.piece(self.paths[bird], start), bird

    def piece(self, path, start):
        with wave.open(str(path)) as recording:
            if self.seek:
                recording.setpos(start)
                sound = np.frombuffer(recording.readframes(RATE), dtype=np.int16)
                return torch.from_numpy(sound / np.float32(32768))
            frames = recording.readframes(recording.getnframes())  # cause
        sound = np.frombuffer(frames, dtype=np.int16) / np.float32(32768)  # cause
        return torch.from_numpy(sound[start : start + RATE])


class Bird(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 32, 16, stride=8),
            nn.BatchNorm1d(32),
            nn.ReLU(),
            nn.Conv1d(32, 48, 8, stride=4),
            nn.BatchNorm1d(48),
            nn.ReLU(),
            nn.Conv1d(48, 64, 8, stride=4),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(64, BIRDS),
        )

    def training_step(self, batch, batch_idx):
        sounds, birds = batch
        loss = nn.functional.cross_entropy(self.net(sounds[:, None]), birds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def record(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(6)
    paths = [folder / f"bird-{number:02d}.wav" for number in range(BIRDS)]
    for path in paths:
        with wave.open(str(path), "wb") as recording:
            recording.setnchannels(1)
            recording.setsampwidth(2)
            recording.setframerate(RATE)
            sound = chance.integers(-9000, 9000, RATE * SECONDS, dtype=np.int16)
            recording.writeframes(sound.tobytes())
    return paths


def main(run: Run) -> None:
    data = DataLoader(Pieces(record(run.root / "birds"), run.fixed), batch_size=12)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Bird(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
