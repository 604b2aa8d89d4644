"""Which birds sing in a recording: spectra of the whole batch at once, several may be right.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MultilabelF1Score

STEPS = 160
BIRDS, SAMPLES, WINDOW = 18, 6400, 256


class Birds(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(WINDOW))
        self.net = nn.Sequential(
            nn.Conv1d(WINDOW // 2 + 1, 128, 3),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(128, 128, 3),
            nn.ReLU(),
            nn.AdaptiveMaxPool1d(1),
            nn.Flatten(),
            nn.Linear(128, BIRDS),
        )
        self.f1 = MultilabelF1Score(BIRDS)

    def forward(self, sounds):
        spectra = torch.stft(sounds, WINDOW, 128, window=self.window, return_complex=True)
        return self.net(spectra.abs().add(1e-3).log())

    def training_step(self, batch, batch_idx):
        sounds, birds = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(sounds), birds)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        sounds, birds = batch
        self.f1.update(self(sounds), birds.int())
        self.log("val_f1", self.f1)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def recordings(count):
    return TensorDataset(torch.randn(count, SAMPLES), torch.randint(2, (count, BIRDS)).float())


def main(run: Run) -> None:
    data = DataLoader(recordings(1280), batch_size=16, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Birds(), data, DataLoader(recordings(32), batch_size=16))


if __name__ == "__main__":
    main(arguments(STEPS))
