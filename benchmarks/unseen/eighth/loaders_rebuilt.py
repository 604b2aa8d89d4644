"""Bearings that will break, told by their vibration: easy recordings first, harder ones later.

seen in: a guise of: worker start-up each epoch

cause: the loader is built anew for each epoch (reload_dataloaders_every_n_epochs) to let harder
    recordings in, so its workers are started each time, though it asks for persistent ones
right: says that workers are started anew in each epoch, or points at a marked line first; its
    change keeps the loader, and so its workers
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler

STEPS = 600
COUNT, LONG, BATCH, PER_EPOCH, CLASSES = 1200, 4096, 8, 12, 5


class Vibrations(Dataset):
    """Spectra of recordings, the easy ones first."""

    def __init__(self) -> None:
        self.signals = np.random.default_rng(3).standard_normal((COUNT, LONG), dtype=np.float32)
        self.kinds = torch.randint(CLASSES, (COUNT,))

    def __getitem__(self, index):
        frames = np.lib.stride_tricks.sliding_window_view(self.signals[index], 256)[::96]
        spectra = np.abs(np.fft.rfft(frames * np.hanning(256).astype(np.float32)))
        return torch.from_numpy(np.log1p(spectra)).float(), self.kinds[index]


class Curriculum(Sampler):
    """Draws an epoch's recordings; each epoch may draw harder ones."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return BATCH * PER_EPOCH

    def __iter__(self):
        hardest = min(COUNT, 400 + 20 * self.epoch)
        self.epoch += 1
        yield from torch.randint(hardest, (len(self),)).tolist()


class Bearings(L.LightningDataModule):
    def setup(self, stage):
        self.vibrations = Vibrations()

    def train_dataloader(self):
        return DataLoader(  # cause
            self.vibrations,
            batch_size=BATCH,
            sampler=Curriculum(self.trainer.current_epoch),
            num_workers=1,
            persistent_workers=True,
        )


class Breaking(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(129, 96)
        layer = nn.TransformerEncoderLayer(96, 4, 192, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(96, CLASSES)

    def training_step(self, batch, batch_idx):
        spectra, kinds = batch
        told = self.head(self.encoder(self.read(spectra)).mean(dim=1))
        loss = nn.functional.cross_entropy(told, kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(
        callbacks=run.callbacks,
        reload_dataloaders_every_n_epochs=0 if run.fixed else 1,  # cause
        enable_checkpointing=False,
        log_every_n_steps=4 * PER_EPOCH,
        **run.trainer,
    )
    trainer.fit(Breaking(), Bearings())


if __name__ == "__main__":
    main(arguments(STEPS))
