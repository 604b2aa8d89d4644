"""Cells under the microscope, counted as a density; a look at the held-out ones now and then.

seen in: Lightning-AI/pytorch-lightning issue 434, "Having a low "val_check_interval" value with
many workers in Dataloader leads to extrem overhead"

cause: the validation loader's workers are started for each validation and ended after it
accept: worker-startup @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS = 200
SIDE = 40


class HeldOut(Dataset):
    def __init__(self, count) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        chance = torch.Generator().manual_seed(index)
        places = torch.rand(9, 2, generator=chance) * SIDE
        along = torch.arange(SIDE).float()
        down, across = (-(along - places[:, :, None]).square() / 8).exp().unbind(1)
        density = torch.einsum("nd,na->da", down, across)[None]
        return density + 0.1 * torch.randn(1, SIDE, SIDE, generator=chance), density


class Counter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 1, 3, padding=1),
        )

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    seen = TensorDataset(torch.rand(800, 1, SIDE, SIDE), torch.rand(800, 1, SIDE, SIDE))
    data = DataLoader(seen, batch_size=8, shuffle=True)
    held_out = DataLoader(  # cause
        HeldOut(24),
        batch_size=8,
        num_workers=2,  # cause
        persistent_workers=run.fixed,  # cause
    )
    trainer = L.Trainer(callbacks=run.callbacks, val_check_interval=20, **run.trainer)
    trainer.fit(Counter(), data, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))
