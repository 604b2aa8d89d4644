"""Galaxies by their shape, streamed shard after shard from the disk.

seen in: a guise of: garbage-collector spikes

cause: behind each shard the stream collects garbage by hand, so one step in thirty waits until
    the collector has gone through every object of the process (the shard itself was freed by
    `del`)
right: says that garbage collection (gc.collect) makes single steps slow, or points at a marked
    line first; its change leaves the call out
"""

import gc
from pathlib import Path

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

STEPS = 400
SIDE, BATCH, PER_SHARD = 40, 32, 32 * 30


def written(folder: Path, count: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(5)
    paths = [folder / f"shard{number}.npz" for number in range(count)]
    for path in paths:
        pictures = chance.random((PER_SHARD, 1, SIDE, SIDE), dtype=np.float32)
        np.savez(path, pictures=pictures, shapes=chance.integers(6, size=PER_SHARD))
    return paths


class Sky(IterableDataset):
    def __init__(self, shards: list[Path], collect: bool) -> None:
        self.shards, self.collect = shards, collect

    def __iter__(self):
        for path in self.shards:
            with np.load(path) as shard:
                pictures, shapes = torch.from_numpy(shard["pictures"]), shard["shapes"]
            for index in np.random.permutation(PER_SHARD):
                yield pictures[index], shapes[index]
            del pictures, shapes
            if self.collect:
                gc.collect()  # cause


class Galaxies(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = []
        for before, width in ((1, 24), (24, 48), (48, 96)):
            layers += [nn.Conv2d(before, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
            layers += [nn.MaxPool2d(2)]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 6))

    def training_step(self, batch, batch_idx):
        pictures, shapes = batch
        if torch.rand(()) < 0.5:
            pictures = pictures.flip(-1)
        loss = nn.functional.cross_entropy(self.net(pictures), shapes, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 5)]


def main(run: Run) -> None:
    sky = Sky(written(run.root / "sky", 8), collect=not run.fixed)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Galaxies(), DataLoader(sky, batch_size=BATCH))


if __name__ == "__main__":
    main(arguments(STEPS))
