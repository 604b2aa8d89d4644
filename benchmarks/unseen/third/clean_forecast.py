"""Sales of many shops: a data module, one cycle of the learning rate, early stopping, a CSV log.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
PAST, AHEAD, SHOPS = 56, 14, 60


class Sales(L.LightningDataModule):
    def setup(self, stage):
        windows = torch.rand(SHOPS, 420).unfold(1, PAST + AHEAD, 7).contiguous()
        shops = torch.arange(SHOPS).unsqueeze(1).expand(windows.shape[:2])
        self.training = TensorDataset(shops[:, :-2].flatten(), windows[:, :-2].flatten(0, 1))
        self.validation = TensorDataset(shops[:, -2:].flatten(), windows[:, -2:].flatten(0, 1))

    def train_dataloader(self):
        return DataLoader(self.training, batch_size=64, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.validation, batch_size=120)


class Forecast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.shop = nn.Embedding(SHOPS, 24)
        self.conv = nn.Sequential(
            nn.Conv1d(1, 64, 7, padding=3), nn.GELU(), nn.Conv1d(64, 64, 7, padding=3), nn.GELU()
        )
        self.out = nn.Sequential(nn.Linear(64 * 8 + 24, 256), nn.GELU(), nn.Linear(256, AHEAD))

    def loss(self, batch):
        shops, sales = batch
        level = sales[:, :PAST].mean(1, keepdim=True)
        past = nn.functional.adaptive_avg_pool1d(self.conv(sales[:, None, :PAST]), 8).flatten(1)
        guess = self.out(torch.cat([past, self.shop(shops)], dim=1)) + level
        return nn.functional.huber_loss(guess, sales[:, PAST:])

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, self.trainer.max_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": cycle, "interval": "step"},
        }


def main(run: Run) -> None:
    callbacks = [EarlyStopping("val_loss", patience=50), LearningRateMonitor(), *run.callbacks]
    trainer = L.Trainer(callbacks=callbacks, logger=CSVLogger(run.root), **run.trainer)
    trainer.fit(Forecast(), datamodule=Sales())


if __name__ == "__main__":
    main(arguments(STEPS))
