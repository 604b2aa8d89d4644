"""Will the volcano erupt? A classifier of tremor spectrograms, a small archive in short epochs.

cause: the loader has workers but not persistent_workers, so that they are started anew for each
    epoch of 16 steps
right: names the start of the loader's workers at each epoch (the wait for the first batch of an
    epoch), or points at a marked line first; its change is persistent_workers=True, longer
    epochs, or no workers
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 400
COUNT, BATCH, LENGTH = 256, 16, 4096


class Tremors(Dataset):
    """Cuts a window from each recording at random and takes its log spectrogram."""

    def __init__(self) -> None:
        ringing = torch.sin(torch.arange(2 * LENGTH) * torch.rand(COUNT, 1))
        self.labels = torch.randint(0, 3, (COUNT,))
        self.recordings = ringing * self.labels[:, None] + torch.randn(COUNT, 2 * LENGTH)
        self.window = torch.hann_window(128)

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        start = int(torch.randint(0, LENGTH, ()))
        cut = self.recordings[index, start : start + LENGTH]
        power = torch.stft(cut, 128, 64, window=self.window, return_complex=True).abs()
        return power.log1p()[None, :64, :64], self.labels[index]


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(64, 3),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        spectra, labels = batch
        loss = nn.functional.cross_entropy(self.net(spectra), labels)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Tremors(),
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,  # cause
        persistent_workers=run.fixed,  # cause
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
