"""Prototypical networks: 5-way 5-shot episodes drawn by worker processes.

cause: an epoch is 12 episodes, and each epoch starts its two workers anew
accept: worker-startup slow-epoch-start
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 450
WAYS, SHOTS, QUERIES = 5, 5, 10


class Episodes(Dataset):
    def __init__(self, images: torch.Tensor, per_epoch: int) -> None:
        self.images, self.per_epoch = images, per_epoch

    def __len__(self) -> int:
        return self.per_epoch

    def __getitem__(self, i: int):
        classes = torch.randperm(len(self.images))[:WAYS]
        picked = torch.stack(
            [self.images[c, torch.randperm(20)[: SHOTS + QUERIES]] for c in classes]
        )
        return picked[:, :SHOTS], picked[:, SHOTS:]


def block(inside: int, outside: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1),
        nn.BatchNorm2d(outside),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )


class Prototypes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(block(1, 8), block(8, 16), block(16, 32), nn.Flatten())

    def training_step(self, batch, batch_idx):
        support, query = batch
        both = self.encoder(torch.cat([support, query], dim=1).flatten(0, 1))
        both = both.unflatten(0, (WAYS, SHOTS + QUERIES))
        prototypes = both[:, :SHOTS].mean(dim=1)
        scores = -torch.cdist(both[:, SHOTS:].flatten(0, 1), prototypes)
        loss = nn.functional.cross_entropy(scores, torch.arange(WAYS).repeat_interleave(QUERIES))
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9)


def main(run: Run) -> None:
    episodes = Episodes(torch.rand(64, 20, 1, 28, 28), per_epoch=12)
    data = DataLoader(  # cause
        episodes,  # cause
        batch_size=None,  # cause
        num_workers=2,  # cause
        persistent_workers=run.fixed,  # cause
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Prototypes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
