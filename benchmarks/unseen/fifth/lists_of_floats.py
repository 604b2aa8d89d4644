"""Walking, sitting, climbing? Windows of a phone's sensors, as they came out of a JSON file.

seen in: JDBumgardner/stone_ground_hearth_battles issue 19 ("just converting our basic lists to
tensors seems to be the slowest part of our training"), and pytorch/pytorch issue 29973

cause: windows stay nested Python lists, and torch.tensor makes a tensor of one for each item
right: names the fetching of items in the loader, or the line with torch.tensor; its change takes
    the conversion out of the step (done once beforehand, or in worker processes)
"""

import random

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 260
LENGTH, SENSORS, KINDS = 128, 6, 5


class Windows(Dataset):
    def __init__(self, windows, kinds) -> None:
        self.windows, self.kinds = windows, kinds

    def __len__(self) -> int:
        return len(self.windows)

    def __getitem__(self, index):
        window = self.windows[index]
        if not isinstance(window, torch.Tensor):
            window = torch.tensor(window, dtype=torch.float32)  # cause
        return window, self.kinds[index]


class Movement(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(SENSORS, 48, 5, padding=2),
            nn.BatchNorm1d(48),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(48, 64, 5, padding=2),
            nn.BatchNorm1d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(64, KINDS),
        )

    def training_step(self, batch, batch_idx):
        windows, kinds = batch
        loss = nn.functional.cross_entropy(self.net(windows.mT), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    chance = random.Random(8)
    windows = [
        [[chance.gauss(0, 1) for _ in range(SENSORS)] for _ in range(LENGTH)] for _ in range(800)
    ]
    if run.fixed:
        windows = [torch.tensor(window) for window in windows]
    kinds = [chance.randrange(KINDS) for _ in windows]
    data = DataLoader(Windows(windows, kinds), batch_size=32, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Movement(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
