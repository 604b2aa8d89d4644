"""How much lift has the wing? A Fourier operator over profiles of wings, clean.

The whole batch is cut from the tensors at once (__getitems__), and the rate of learning follows a
cycle.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
WINGS, POINTS, WIDTH, MODES, BATCH = 6400, 128, 48, 16, 32


class Profiles(Dataset):
    def __init__(self) -> None:
        around = torch.linspace(0, 6.2832, POINTS)
        shape = torch.randn(WINGS, 5, 1) / torch.arange(1, 6)[:, None]
        heights = (shape * torch.sin(torch.arange(1, 6)[:, None] * around)).sum(dim=1)
        angles = torch.rand(WINGS, 1).expand(-1, POINTS)
        self.wings = torch.stack([heights, angles], dim=1)
        self.pressures = heights.roll(3, dims=1).cos() * (1 + angles) - heights

    def __len__(self):
        return WINGS

    def __getitems__(self, indices):
        return self.wings[indices], self.pressures[indices]


class Spectral(nn.Module):
    """Mixes the channels of the lowest frequencies, and of each point."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(MODES, WIDTH, WIDTH, 2) / WIDTH)
        self.pointwise = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x):
        low = torch.fft.rfft(x, norm="ortho")[..., :MODES].permute(2, 0, 1)
        mixed = torch.bmm(low, torch.view_as_complex(self.weights)).permute(1, 2, 0)
        wide = torch.fft.irfft(mixed, n=x.shape[-1], norm="ortho")
        return nn.functional.gelu(wide + self.pointwise(x))


class Operator(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        blocks = [Spectral() for _ in range(3)]
        last = [nn.Conv1d(WIDTH, 96, 1), nn.GELU(), nn.Conv1d(96, 1, 1)]
        self.net = nn.Sequential(nn.Conv1d(2, WIDTH, 1), *blocks, *last)

    def training_step(self, batch, batch_idx):
        wings, pressures = batch
        wrong = torch.linalg.vector_norm(self.net(wings)[:, 0] - pressures, dim=1)
        loss = (wrong / torch.linalg.vector_norm(pressures, dim=1)).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        adam = torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)
        rates = torch.optim.lr_scheduler.OneCycleLR(
            adam, 5e-3, total_steps=self.trainer.max_steps + 1
        )
        return {"optimizer": adam, "lr_scheduler": {"scheduler": rates, "interval": "step"}}


def main(run: Run) -> None:
    data = DataLoader(Profiles(), batch_size=BATCH, shuffle=True, collate_fn=tuple)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Operator(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
