"""Does the engine run as it should? An autoencoder over vibrations, with validation, clean."""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 180
COUNT, HELD, BATCH, SAMPLES = 3840, 96, 32, 256


class Autoencoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(3, 96, 7, stride=2, padding=3),
            nn.ReLU(),
            nn.Conv1d(96, 192, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.decoder = nn.Sequential(
            nn.ConvTranspose1d(192, 96, 4, stride=2, padding=1),
            nn.ReLU(),
            nn.ConvTranspose1d(96, 3, 4, stride=2, padding=1),
        )

    def missed(self, waves):
        return nn.functional.mse_loss(self.decoder(self.encoder(waves)), waves)

    def training_step(self, batch, batch_idx):
        loss = self.missed(batch[0])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.missed(batch[0]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    at = torch.arange(SAMPLES)
    pitch = 0.1 + torch.rand(COUNT + HELD, 3, 1)
    waves = torch.sin(at * pitch) + 0.1 * torch.randn(COUNT + HELD, 3, SAMPLES)
    data = DataLoader(TensorDataset(waves[:COUNT]), batch_size=BATCH, shuffle=True)
    held = DataLoader(TensorDataset(waves[COUNT:]), batch_size=HELD)
    callbacks = [
        EarlyStopping("val_loss", patience=5),
        ModelCheckpoint(monitor="val_loss", save_top_k=1),
        *run.callbacks,
    ]
    trainer = L.Trainer(callbacks=callbacks, num_sanity_val_steps=0, **run.trainer)
    trainer.fit(Autoencoder(), data, held)


if __name__ == "__main__":
    main(arguments(STEPS))
