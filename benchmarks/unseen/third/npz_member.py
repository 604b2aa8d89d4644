"""Where will the rain go? Radar frames from an archive, the next ones forecast from the last.

seen in: numpy/numpy issues 26498 and 26499, "np.load("a.npz") very slow when a.npz file very large"

cause: an opened .npz file reads the whole array from the archive each time that it is indexed
accept: data-wait @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
SIZE, PAST, AHEAD = 40, 6, 3


class Radar(Dataset):
    def __init__(self, path, keep: bool) -> None:
        archive = np.load(path)
        self.archive = {"frames": archive["frames"]} if keep else archive  # cause
        self.count = len(archive["frames"]) - PAST - AHEAD

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, start: int):
        frames = self.archive["frames"][start : start + PAST + AHEAD]  # cause
        frames = torch.from_numpy(frames.astype(np.float32) / 255)
        return frames[:PAST], frames[PAST:]


class Nowcast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(PAST, 40, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(40, 40, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(40, AHEAD, 3, padding=1),
        )

    def training_step(self, batch, batch_idx):
        past, ahead = batch
        loss = nn.functional.mse_loss(self.net(past) + past[:, -1:], ahead)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    run.root.mkdir(parents=True, exist_ok=True)
    path = run.root / "radar.npz"
    rain = np.random.default_rng(0).integers(256, size=(800, SIZE, SIZE), dtype=np.uint8)
    np.savez(path, frames=rain)
    data = DataLoader(Radar(path, keep=run.fixed), batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Nowcast(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
