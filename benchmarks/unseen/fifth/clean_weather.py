"""Tomorrow's temperature from dilated convolutions; validated and kept once per long epoch.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 240
STATIONS, PAST = 12, 96


class Weather(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv1d(STATIONS, 64, 3, padding=1), nn.ReLU()]
        for power in range(1, 4):
            layers += [nn.Conv1d(64, 64, 3, padding=2**power, dilation=2**power), nn.ReLU()]
        self.net = nn.Sequential(*layers)
        self.head = nn.Linear(64, STATIONS)

    def error(self, batch):
        past, tomorrow = batch
        return nn.functional.huber_loss(self.head(self.net(past)[:, :, -1]), tomorrow)

    def training_step(self, batch, batch_idx):
        loss = self.error(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.error(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=10_000)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    days = TensorDataset(torch.randn(2560, STATIONS, PAST), torch.randn(2560, STATIONS))
    later = TensorDataset(torch.randn(256, STATIONS, PAST), torch.randn(256, STATIONS))
    best = ModelCheckpoint(run.root / "best", monitor="val_loss", save_top_k=1)
    stop = EarlyStopping("val_loss", patience=20)
    trainer = L.Trainer(
        callbacks=[best, stop, *run.callbacks],
        logger=CSVLogger(run.root),
        gradient_clip_val=1.0,
        **run.trainer,
    )
    trainer.fit(
        Weather(), DataLoader(days, batch_size=32, shuffle=True), DataLoader(later, batch_size=128)
    )


if __name__ == "__main__":
    main(arguments(STEPS))
