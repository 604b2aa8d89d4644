"""Crops of a large picture are scored by a trained network.

Reported in weecology/DeepForest pull request 410, "Update predict functions to align with pytorch
lightning API" ("batch size == 1" is what predict_tile had, whatever the workers), and
open-edge-platform/anomalib issue 2846.

cause: the loader of `predict` was made without batch_size, which is 1: the network goes through all
    its weights, and Lightning through its loop, for each single crop
right: says that the batches of prediction are too small (batch size 1); the change is a larger
    batch_size. Workers are no cure, nor is return_predictions=False
FIX=1 mends it: batch_size=32.
"""

import clock
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader


class Crops(torch.utils.data.Dataset):
    def __init__(self):
        self.picture = torch.rand(3, 1200, 1200)

    def __len__(self):
        return 1600

    def __getitem__(self, index):
        row, column = divmod(index, 40)
        return self.picture[:, row * 29 : row * 29 + 24, column * 29 : column * 29 + 24]


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        wide = nn.Conv2d(3, 24, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 121, 1024)
        self.net = nn.Sequential(*wide, nn.ReLU(), nn.Linear(1024, 8))

    def predict_step(self, batch, index):
        return self.net(batch).argmax(1)


if __name__ == "__main__":
    made, times = clock.trainer()
    data = DataLoader(Crops(), batch_size=32 if clock.FIX else 1)  # cause
    model = Net()
    clock.timed(made, times, lambda: made.predict(model, data))
