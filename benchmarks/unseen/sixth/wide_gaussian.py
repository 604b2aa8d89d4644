"""Where are the membranes? Slices from a microscope, bent like rubber before they are seen.

seen in: kornia/kornia issue 994, "Elastic transform offset generation maybe inefficient", and
MIC-DKFZ/batchgenerators issues 56, "Make elastic transform faster", and 5

cause: for each slice, noise in full size is smoothed by a wide two-dimensional Gaussian to bend it
right: names the fetching of items in the loader, or the lines that smooth the noise; its change
    takes that work out of the step (noise drawn on a coarse grid and enlarged, separable filters,
    whole batches at once, or worker processes)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 220
SLICES, SIDE, REACH = 300, 56, 24


def gaussian() -> torch.Tensor:
    places = torch.arange(-REACH, REACH + 1.0)
    line = torch.exp(-0.5 * (places / (REACH / 2)) ** 2)
    return (line[:, None] * line / line.sum() ** 2)[None, None]


class Slices(Dataset):
    def __init__(self, slices, membranes, coarse: bool) -> None:
        self.slices, self.membranes, self.coarse = slices, membranes, coarse
        self.gaussian = gaussian()
        line = torch.linspace(-1, 1, SIDE)
        self.straight = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=2)

    def __len__(self) -> int:
        return len(self.slices)

    def shifts(self):
        """Draw how far each place moves: smooth, about a tenth of the slice at the most."""
        if self.coarse:
            noise = 0.1 * (2 * torch.rand(1, 2, 7, 7) - 1)
            return nn.functional.interpolate(noise, (SIDE, SIDE), mode="bicubic")
        noise = 2 * torch.rand(2, 1, SIDE, SIDE) - 1
        smooth = nn.functional.conv2d(noise, self.gaussian, padding=REACH)  # cause
        return smooth.transpose(0, 1)

    def __getitem__(self, index):
        grid = self.straight + self.shifts().permute(0, 2, 3, 1)  # cause
        both = torch.stack([self.slices[index], self.membranes[index]])[None]
        bent = nn.functional.grid_sample(both, grid, align_corners=True)[0]
        return bent[:1], bent[1:].round()


class Membranes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.fine = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU())
        self.coarse = nn.Sequential(
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
        )
        self.head = nn.Sequential(nn.Conv2d(48, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1))

    def training_step(self, batch, batch_idx):
        slices, membranes = batch
        fine = self.fine(slices)
        scores = self.head(torch.cat([fine, self.coarse(fine)], dim=1))
        loss = nn.functional.binary_cross_entropy_with_logits(scores, membranes)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    slices = torch.randn(SLICES, SIDE, SIDE)
    membranes = (slices > 0.5).float()
    data = DataLoader(Slices(slices, membranes, run.fixed), batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Membranes(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
