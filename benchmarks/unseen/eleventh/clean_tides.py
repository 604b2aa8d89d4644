"""How high will the water be? A GRU over gauges, with drawn windows, a plateau schedule and a stop.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
GAUGES, HOURS, PAST, AHEAD, BATCH = 60, 4000, 48, 12, 32


class Windows(Dataset):
    """Each item is a whole batch of windows, cut out of the series in one go."""

    def __init__(self, series: torch.Tensor, batches: int) -> None:
        self.windows = series.unfold(1, PAST + AHEAD, 1)
        self.batches = batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        gauges = torch.randint(self.windows.shape[0], (BATCH,))
        starts = torch.randint(self.windows.shape[1], (BATCH,))
        cut = self.windows[gauges, starts]
        return cut[:, :PAST, None], cut[:, PAST:]


class Tides(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.past = nn.GRU(1, 112, num_layers=2, batch_first=True)
        self.head = nn.Linear(112, 2 * AHEAD)

    def missed(self, batch):
        past, later = batch
        hidden, _ = self.past(past)
        mean, spread = self.head(hidden[:, -1]).chunk(2, dim=1)
        return nn.functional.gaussian_nll_loss(mean, later, nn.functional.softplus(spread) + 1e-3)

    def training_step(self, batch, batch_idx):
        loss = self.missed(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.missed(batch), batch_size=BATCH)

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=3)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"},
        }


def main(run: Run) -> None:
    hours = torch.arange(HOURS) * (0.4 + 0.2 * torch.rand(GAUGES, 1))
    series = torch.sin(hours) + 0.5 * torch.sin(0.13 * hours) + 0.1 * torch.randn(GAUGES, HOURS)
    train = DataLoader(Windows(series[:, :3200], 200), batch_size=None)
    held = DataLoader(Windows(series[:, 3200:], 4), batch_size=None)
    callbacks = [
        EarlyStopping("val_loss", patience=20),
        ModelCheckpoint(dirpath=run.root / "tides", monitor="val_loss"),
        *run.callbacks,
    ]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Tides(), train, held)


if __name__ == "__main__":
    main(arguments(STEPS))
