"""A segmentation is tested: how precise is it, over all thresholds?

Reported in Lightning-AI/torchmetrics issue 1492, "Binned implementation of PrecisionRecallCurve is
extremely slow for large batch sizes".

cause: BinaryAveragePrecision(thresholds=400) goes through its thresholds one by one for the pixels
    of each batch
right: names the metric's update in test_step (or a marked line), though no training runs; the
    change is fewer thresholds, thresholds=None, or fewer pixels
FIX=1 mends it: thresholds=None.
"""

import clock
import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAveragePrecision


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        wide = nn.Conv2d(3, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1)
        self.net = nn.Sequential(*wide, nn.ReLU(), nn.Conv2d(24, 1, 1))
        self.precise = BinaryAveragePrecision(thresholds=None if clock.FIX else 400)  # cause

    def test_step(self, batch, index):
        self.precise.update(self.net(batch[0]).sigmoid(), batch[1])  # cause
        self.log("precise", self.precise)


if __name__ == "__main__":
    made, times = clock.trainer()
    pictures = torch.rand(8 * 48, 3, 96, 96)
    marks = (pictures.mean(1, keepdim=True) > 0.5).long()
    data = DataLoader(TensorDataset(pictures, marks), 8)
    model = Net()
    clock.timed(made, times, lambda: made.test(model, data, verbose=False))
