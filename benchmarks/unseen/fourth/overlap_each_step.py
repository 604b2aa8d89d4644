"""Fields, woods and water in pictures from above, pixel by pixel.

seen in: Lightning-AI/torchmetrics issue 1413, "Validation with torchmetrics extremely slow", with
the Jaccard index

cause: the overlap of all 21 classes is measured on every training batch, where validation does too
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MulticlassJaccardIndex

STEPS = 160
CLASSES, SIDE = 21, 64


class Land(L.LightningModule):
    def __init__(self, measured: bool) -> None:
        super().__init__()
        self.measured = measured
        self.net = nn.Sequential(
            nn.Conv2d(4, 24, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(24, 32, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(32, CLASSES, 1),
        )
        self.train_overlap = MulticlassJaccardIndex(CLASSES)
        self.val_overlap = MulticlassJaccardIndex(CLASSES)

    def training_step(self, batch, batch_idx):
        pictures, classes = batch
        scores = self.net(pictures)
        loss = nn.functional.cross_entropy(scores, classes)
        self.log("train_loss", loss)
        if self.measured:
            self.log("train_overlap", self.train_overlap(scores.softmax(1), classes))  # cause
        return loss

    def validation_step(self, batch, batch_idx):
        pictures, classes = batch
        self.val_overlap.update(self.net(pictures), classes)
        self.log("val_overlap", self.val_overlap)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def pictures(count):
    shown = torch.randn(count, 4, SIDE, SIDE)
    return TensorDataset(shown, torch.randint(CLASSES, (count, SIDE, SIDE)))


def main(run: Run) -> None:
    data = DataLoader(pictures(320), batch_size=6, shuffle=True)
    model = Land(measured=not run.fixed)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(model, data, DataLoader(pictures(12), batch_size=6))


if __name__ == "__main__":
    main(arguments(STEPS))
