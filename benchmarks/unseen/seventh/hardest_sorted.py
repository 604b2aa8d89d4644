"""Cracks, seams and stains on concrete, pixel by pixel: the loss looks at the hardest pixels only.

seen in: Tramac/Fast-SCNN-pytorch issue 28, "Training is too slow" (the OHEM loss was most of it),
MichaelFan01/STDC-Seg issue 82, and pytorch/pytorch issue 76654, "Torch.sort slower than nn.Conv2d"

cause: the loss sorts all pixels of the batch to keep the hardest ones, though their order does not
    matter
right: says that the sort of the pixels' losses takes the time, or points at the marked line first;
    its change keeps them by the threshold and by topk (or kthvalue) without a full sort
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
BATCH, SIDE, KINDS = 6, 128, 5


class HardestPixels(nn.Module):
    """Mean cross entropy of the pixels above a threshold, of a sixteenth of all at the least."""

    def __init__(self, threshold: float, selected: bool) -> None:
        super().__init__()
        self.threshold, self.selected = threshold, selected

    def forward(self, scores, kinds):
        losses = nn.functional.cross_entropy(scores, kinds, reduction="none").flatten()
        least = losses.numel() // 16
        if self.selected:
            hard = losses[losses > self.threshold]
            return (hard if len(hard) > least else losses.topk(least, sorted=False).values).mean()
        losses = losses.sort(descending=True).values  # cause
        if losses[least] > self.threshold:
            return losses[losses > self.threshold].mean()
        return losses[:least].mean()


def block(into: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
    )


class Concrete(L.LightningModule):
    def __init__(self, selected: bool) -> None:
        super().__init__()
        self.detail = nn.Sequential(block(3, 16, 2), block(16, 24))
        self.context = nn.Sequential(block(24, 32, 2), block(32, 48, 2), block(48, 24))
        self.head = nn.Sequential(block(24, 24), nn.Conv2d(24, KINDS, 1))
        self.loss = HardestPixels(0.35, selected)

    def forward(self, photos):
        detail = self.detail(photos)
        context = nn.functional.interpolate(self.context(detail), scale_factor=4)
        scores = self.head(detail + context)
        return nn.functional.interpolate(scores, scale_factor=2, mode="bilinear")

    def training_step(self, batch, batch_idx):
        photos, kinds = batch
        loss = self.loss(self(photos), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, STEPS, power=0.9)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    kinds = torch.randint(KINDS, (240, 8, 8)).repeat_interleave(16, 1).repeat_interleave(16, 2)
    colours = torch.rand(KINDS, 3)
    photos = colours[kinds].movedim(3, 1) + 0.3 * torch.randn(240, 3, SIDE, SIDE)
    data = DataLoader(TensorDataset(photos, kinds), batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Concrete(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
