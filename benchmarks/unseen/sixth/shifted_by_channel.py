"""A picture in 28 colours out of a single one: a coded camera, undone by an unrolled network.

seen in: a question on discuss.pytorch.org (186967), "Parallelize/accelerate loops of tensor
additions": channels are shifted by different distances and summed, channel after channel

cause: the camera and its way back go through the colours in a Python loop, in every stage
right: names the many small operations of these loops (in forward, training_step or backward) with
    the advice to do them for all colours at once, or points at a marked line first
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 560
COLOURS, SIDE, SHIFT, STAGES = 28, 40, 2, 3
LONG = SIDE + SHIFT * (COLOURS - 1)


class Camera(nn.Module):
    """Shifts each colour by SHIFT more than the one before it, and adds them up."""

    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        self.register_buffer("mask", (torch.rand(SIDE, SIDE) > 0.5).float())
        self.register_buffer("seen", self.forward(torch.ones(1, COLOURS, SIDE, SIDE)) + 1)

    def forward(self, cube):
        coded = cube * self.mask
        if self.at_once:
            rows = nn.functional.pad(coded.transpose(1, 2), (0, LONG + SHIFT - SIDE)).flatten(2)
            shifted = rows[..., : COLOURS * LONG].unflatten(2, (COLOURS, LONG))
            return shifted.sum(dim=2)[:, None]
        picture = cube.new_zeros(len(cube), 1, SIDE, LONG)
        for colour in range(COLOURS):  # cause
            start = colour * SHIFT
            picture[..., start : start + SIDE] += coded[:, colour : colour + 1]  # cause
        return picture

    def back(self, picture):
        picture = picture / self.seen
        if self.at_once:
            return picture.squeeze(1).unfold(2, SIDE, SHIFT).transpose(1, 2) * self.mask
        starts = range(0, COLOURS * SHIFT, SHIFT)
        colours = [picture[..., start : start + SIDE] for start in starts]  # cause
        return torch.cat(colours, dim=1) * self.mask  # cause


class Unrolled(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.camera = Camera(at_once)
        self.clean = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(COLOURS, 32, 3, padding=1),
                nn.ReLU(),
                nn.Conv2d(32, COLOURS, 3, padding=1),
            )
            for _ in range(STAGES)
        )

    def forward(self, picture):
        cube = self.camera.back(picture)  # cause
        for clean in self.clean:
            cube = cube + self.camera.back(picture - self.camera(cube))  # cause
            cube = cube + clean(cube)
        return cube

    def training_step(self, batch, batch_idx):
        (cube,) = batch
        with torch.no_grad():
            picture = self.camera(cube)
        loss = nn.functional.mse_loss(self(picture), cube)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=4e-4, fused=True)


def main(run: Run) -> None:
    cubes = TensorDataset(torch.rand(200, COLOURS, SIDE, SIDE))
    data = DataLoader(cubes, batch_size=2, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Unrolled(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
