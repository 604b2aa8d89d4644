"""Which whale calls? A classifier of mel spectrograms that a worker takes from the recordings.

cause: __getitem__ builds the mel filter bank, which is the same for every recording, anew for each
    sample in Python loops, so that the one worker falls behind the training
right: names the building of the filter bank in __getitem__ (mel_bank) as what the loader's worker
    spends its time on; its change is to build it once, in __init__; more workers is second best
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 320
COUNT, BATCH, LENGTH, RATE = 640, 16, 8192, 8000
BINS, MELS = 65, 48


def mel_bank():
    """Return the triangles of the mel scale as a matrix from frequency bins to mels."""
    top = 2595 * torch.log10(torch.tensor(1 + RATE / 2 / 700))
    edges = 700 * (10 ** (torch.linspace(0, float(top), MELS + 2) / 2595) - 1)
    edges = edges.tolist()
    bank = []
    for left, middle, right in zip(edges, edges[1:], edges[2:], strict=False):
        row = []
        for bin_ in range(BINS):
            hertz = bin_ * RATE / 2 / (BINS - 1)  # cause
            rise = (hertz - left) / (middle - left)  # cause
            fall = (right - hertz) / (right - middle)  # cause
            row.append(max(0.0, min(rise, fall)))  # cause
        bank.append(row)
    return torch.tensor(bank)


class Calls(Dataset):
    """Takes the log mel spectrogram of a recording."""

    def __init__(self, fixed) -> None:
        self.species = torch.randint(0, 6, (COUNT,))
        tone = (0.2 + 0.3 * self.species)[:, None] * torch.arange(LENGTH) / 4
        self.recordings = torch.sin(tone) + torch.randn(COUNT, LENGTH)
        self.window = torch.hann_window(128)
        self.bank = mel_bank() if fixed else None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        recording = self.recordings[index]
        power = torch.stft(recording, 128, 64, window=self.window, return_complex=True).abs()
        bank = mel_bank() if self.bank is None else self.bank  # cause
        return (bank @ power).log1p()[None], self.species[index]


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(12, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(48, 6),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        spectra, species = batch
        loss = nn.functional.cross_entropy(self.net(spectra), species)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Calls(run.fixed),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
