"""Which bearing fails next? A feature-gated MLP over the channels of wind turbines.

cause: each sample is a dict of 12 tensors of one number, all of which the workers stack and send
    one by one (a piece of shared memory for each), and training_step joins them again
right: names the loading (__getitem__, the collation, or the sending of many small tensors between
    the workers and the main process), or points at a marked line; its change gives a sample as one
    tensor
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
CHANNELS, BEARINGS = 12, 6
NAMES = [f"scada_{number:03d}" for number in range(CHANNELS)]


class Turbines(Dataset):
    def __init__(self, together: bool):
        self.table = torch.randn(20_000, CHANNELS)
        self.fails = (self.table[:, :BEARINGS] + torch.randn(20_000, BEARINGS)).argmax(dim=1)
        self.together = together

    def __len__(self):
        return len(self.table)

    def __getitem__(self, row):
        if self.together:
            return {"channels": self.table[row], "fails": self.fails[row]}
        sample = dict(zip(NAMES, self.table[row].unbind(), strict=True))  # cause
        sample["fails"] = self.fails[row]
        return sample  # cause


class TurbineData(L.LightningDataModule):
    def __init__(self, together: bool):
        super().__init__()
        self.together = together

    def setup(self, stage):
        self.train = Turbines(self.together)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=48, shuffle=True, num_workers=2)


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.wide = nn.Linear(width, 2 * width)

    def forward(self, x):
        return x + nn.functional.glu(self.wide(self.norm(x)))


class Bearings(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(CHANNELS, 512), *(Gated(512) for _ in range(4)), nn.Linear(512, BEARINGS)
        )

    def training_step(self, batch, batch_idx):
        if "channels" in batch:
            channels = batch["channels"]
        else:
            channels = torch.stack([batch[name] for name in NAMES], dim=1)  # cause
        loss = nn.functional.cross_entropy(self.net(channels), batch["fails"])
        self.log("loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Bearings(), datamodule=TurbineData(together=run.fixed))


if __name__ == "__main__":
    main(arguments(STEPS))
