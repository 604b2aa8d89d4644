"""How much current will be drawn tomorrow, and how sure is that? A GRU that gives quantiles.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 480
HOURS, PAST, AHEAD, HOMES = 4000, 72, 24, 12
QUANTILES = (0.1, 0.5, 0.9)


class Windows(Dataset):
    """Cuts windows out of one long series, a whole batch by one index."""

    def __init__(self, series) -> None:
        self.windows = series.unfold(0, PAST + AHEAD, 1)

    def __len__(self) -> int:
        return len(self.windows)

    def __getitems__(self, indices):
        return self.windows[indices]


def split(windows):
    return windows[..., :PAST].mT, windows[..., PAST:]


class Current(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.gru = nn.GRU(HOMES, 96, batch_first=True)
        self.head = nn.Linear(96, HOMES * AHEAD * len(QUANTILES))
        self.register_buffer("quantiles", torch.tensor(QUANTILES))

    def pinball(self, batch):
        past, ahead = batch
        states, _ = self.gru(past)
        guess = self.head(states[:, -1]).view(len(past), HOMES, AHEAD, len(QUANTILES))
        over = ahead[..., None] - guess
        return torch.maximum(self.quantiles * over, (self.quantiles - 1) * over).mean()

    def training_step(self, batch, batch_idx):
        loss = self.pinball(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.pinball(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    series = torch.randn(HOURS, HOMES).cumsum(dim=0) / HOURS**0.5
    train = DataLoader(Windows(series[:-400]), batch_size=32, shuffle=True, collate_fn=split)
    held_out = DataLoader(Windows(series[-400:]), batch_size=128, collate_fn=split)
    best = ModelCheckpoint(run.root / "best", monitor="val_loss", save_top_k=1)
    trainer = L.Trainer(callbacks=[best, *run.callbacks], gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Current(), train, held_out)


if __name__ == "__main__":
    main(arguments(STEPS))
