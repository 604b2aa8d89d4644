"""Where are the wheat heads? Counts of boxes in a grid over each picture.

seen in: luxonis/luxonis-ml pull request 140, "Annotation Loading Speed-Up" (a table filtered by the
picture for every item), and snuailab/waffle_hub pull request 128

cause: for each item the list of all annotations is gone through for those of its picture
right: names the fetching of items in the loader, or the line that goes through the list; its
    change takes that work out of the step (grouped once by picture, or worker processes)
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
PICTURES, BOXES, SIDE, CELLS = 600, 18_000, 96, 12


class Wheat(Dataset):
    def __init__(self, pictures, annotations, grouped: bool) -> None:
        self.pictures, self.annotations, self.by_picture = pictures, annotations, None
        if grouped:
            self.by_picture = [[] for _ in range(len(pictures))]
            for one in annotations:
                self.by_picture[one["image_id"]].append(one)

    def __len__(self) -> int:
        return len(self.pictures)

    def boxes(self, index):
        if self.by_picture:
            return self.by_picture[index]
        return [one for one in self.annotations if one["image_id"] == index]  # cause

    def __getitem__(self, index):
        counts = torch.zeros(CELLS, CELLS)
        centres = [one["centre"] for one in self.boxes(index)]  # cause
        if centres:
            columns, rows = (torch.tensor(centres) * CELLS).long().T
            counts.index_put_((rows, columns), torch.ones(len(centres)), accumulate=True)
        return self.pictures[index], counts


class Counter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 1, 1),
        )

    def training_step(self, batch, batch_idx):
        pictures, counts = batch
        rates = self.net(pictures).squeeze(1)
        loss = nn.functional.poisson_nll_loss(rates, counts)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = random.Random(5)
    annotations = [
        {
            "id": number,
            "image_id": chance.randrange(PICTURES),
            "centre": (chance.random(), chance.random()),
        }
        for number in range(BOXES)
    ]
    wheat = Wheat(torch.randn(PICTURES, 3, SIDE, SIDE), annotations, run.fixed)
    data = DataLoader(wheat, batch_size=12, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Counter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
