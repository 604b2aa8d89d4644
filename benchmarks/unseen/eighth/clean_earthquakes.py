"""When does the wave arrive? Windows cut by one lasting worker, weights averaged at once.

accept: none
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
COUNT, LONG, WINDOW = 600, 3000, 2048


class Traces(Dataset):
    """Seismograms of three components; the window and its arrival are drawn anew each time."""

    def __init__(self) -> None:
        chance = np.random.default_rng(4)
        self.traces = chance.standard_normal((COUNT, 3, LONG), dtype=np.float32)
        self.arrivals = chance.integers(1000, 2000, size=COUNT)
        self.band = np.exp(-((np.linspace(0, 1, WINDOW // 2 + 1) - 0.2) ** 2) * 20)

    def __len__(self) -> int:
        return 4 * COUNT

    def __getitem__(self, index):
        index %= COUNT
        start = int(torch.randint(LONG - WINDOW, ()))
        window = self.traces[index, :, start : start + WINDOW]
        window = np.fft.irfft(np.fft.rfft(window) * self.band).astype(np.float32)
        window /= window.std(axis=1, keepdims=True)
        arrival = np.clip(self.arrivals[index] - start, 0, WINDOW - 1)
        return torch.from_numpy(window), torch.tensor(arrival)


class Waves(L.LightningDataModule):
    def train_dataloader(self):
        return DataLoader(
            Traces(),
            batch_size=16,
            shuffle=True,
            drop_last=True,
            num_workers=1,
            persistent_workers=True,
        )


class Average(Callback):
    """Averages the weights over the run, all of them in one call."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def on_fit_start(self, trainer, pl_module):
        self.weights = [parameter.detach().clone() for parameter in pl_module.parameters()]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, *_):
        torch._foreach_lerp_(self.weights, list(pl_module.parameters()), 1 - self.decay)


class Arrival(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = []
        for before, width in ((3, 16), (16, 24), (24, 32), (32, 48)):
            layers += [nn.Conv1d(before, width, 7, stride=2, padding=3), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv1d(48, 1, 5, padding=2))

    def training_step(self, batch, batch_idx):
        windows, arrivals = batch
        loss = nn.functional.cross_entropy(self.net(windows)[:, 0], arrivals // 16)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    saved = ModelCheckpoint(run.root / "saved", every_n_train_steps=400)
    trainer = L.Trainer(callbacks=[Average(0.999), saved, *run.callbacks], **run.trainer)
    trainer.fit(Arrival(), Waves())


if __name__ == "__main__":
    main(arguments(STEPS))
