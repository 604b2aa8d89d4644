"""Is it the same bird? Contrastive learning of song from two noisy cuts of a recording, clean.

Two workers cut and disturb the recordings; pairs are compared with one matrix product, and a short
validation runs every hundred steps.
"""

import lightning as L
import torch
import torch.nn.functional as F
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

STEPS = 300
BIRDS, LENGTH, CUT, BATCH = 2400, 3000, 2000, 24


class Songs(Dataset):
    def __init__(self):
        pitch = 0.05 + 0.5 * torch.rand(BIRDS, 1)
        self.songs = torch.sin(torch.arange(LENGTH) * pitch)

    def __len__(self):
        return BIRDS

    def __getitem__(self, bird):
        starts = torch.randint(0, LENGTH - CUT, (2,)).tolist()
        pair = torch.stack([self.songs[bird, start : start + CUT] for start in starts])
        return pair.add_(torch.randn_like(pair), alpha=0.1)


class SongData(L.LightningDataModule):
    def setup(self, stage):
        songs = Songs()
        self.train = Subset(songs, range(BATCH * 4, BIRDS))
        self.val = Subset(songs, range(BATCH * 4))

    def train_dataloader(self):
        return DataLoader(
            self.train,
            batch_size=BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=2,
            persistent_workers=True,
        )

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=BATCH)


class SameBird(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, 32, 32, stride=8),
            nn.GELU(),
            nn.Conv1d(32, 64, 8, stride=2),
            nn.GELU(),
            nn.Conv1d(64, 96, 8, stride=2),
            nn.GELU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(96, 64),
        )

    def contrast(self, pairs):
        codes = F.normalize(self.encoder(pairs.view(-1, 1, CUT)), dim=1)
        left, right = codes.view(-1, 2, 64).unbind(dim=1)
        alike = left @ right.T / 0.1
        wanted = torch.arange(len(pairs), device=pairs.device)
        return (F.cross_entropy(alike, wanted) + F.cross_entropy(alike.T, wanted)) / 2

    def training_step(self, pairs, batch_idx):
        loss = self.contrast(pairs)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, pairs, batch_idx):
        self.log("val_loss", self.contrast(pairs))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(
        callbacks=run.callbacks,
        val_check_interval=100,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        enable_checkpointing=False,
        **run.trainer,
    )
    trainer.fit(SameBird(), datamodule=SongData())


if __name__ == "__main__":
    main(arguments(STEPS))
