"""Is the leaf ill? A depthwise-separable CNN over photographs of apple leaves, clean.

The photographs are kept as bytes and turned and flipped in two workers that live on between the
epochs; they become floats in the step.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
LEAVES, SIDE, ILLNESSES, BATCH = 3200, 32, 6, 24


class Leaves(Dataset):
    def __init__(self) -> None:
        self.photos = torch.randint(0, 256, (LEAVES, 3, SIDE, SIDE), dtype=torch.uint8)
        self.illnesses = torch.randint(0, ILLNESSES, (LEAVES,))

    def __len__(self) -> int:
        return LEAVES

    def __getitem__(self, index):
        turns, flip = torch.randint(0, 4, (2,)).tolist()
        photo = self.photos[index].rot90(turns, (1, 2))
        return photo.flip(2) if flip % 2 else photo, self.illnesses[index]


class LeafData(L.LightningDataModule):
    def setup(self, stage):
        self.leaves = Leaves()

    def train_dataloader(self):
        return DataLoader(
            self.leaves,
            batch_size=BATCH,
            shuffle=True,
            drop_last=True,
            num_workers=2,
            persistent_workers=True,
        )


def separable(before, after):
    return nn.Sequential(
        nn.Conv2d(before, before, 3, padding=1, groups=before, bias=False),
        nn.Conv2d(before, after, 1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


class Pathologist(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, stride=2, padding=1),
            separable(32, 64),
            separable(64, 96),
            nn.MaxPool2d(2),
            separable(96, 160),
            separable(160, 160),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(160, ILLNESSES),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        photos, illnesses = batch
        photos = photos.to(torch.float32, memory_format=torch.channels_last).div_(127.5).sub_(1)
        loss = nn.functional.cross_entropy(self.net(photos), illnesses)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        sgd = torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, fused=True)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(sgd, self.trainer.max_steps)
        return {"optimizer": sgd, "lr_scheduler": {"scheduler": cosine, "interval": "step"}}


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Pathologist(), datamodule=LeafData())


if __name__ == "__main__":
    main(arguments(STEPS))
