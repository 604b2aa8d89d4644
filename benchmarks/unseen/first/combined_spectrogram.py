"""Semi-supervised keyword spotting: labelled features and raw audio in a CombinedLoader.

cause: the dataset of the unlabelled loader computes a spectrogram with numpy for each clip it gives
accept: data-wait
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS = 300
FRAME, HOP, BANDS = 256, 128, 40


def spectrogram(clip: np.ndarray) -> torch.Tensor:
    starts = range(0, len(clip) - FRAME, HOP)
    frames = np.stack([clip[start : start + FRAME] * np.hanning(FRAME) for start in starts])
    power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
    return torch.from_numpy(np.log1p(power[:, :BANDS]).astype(np.float32))


class Clips(Dataset):
    def __init__(self, clips: np.ndarray) -> None:
        self.clips = clips

    def __len__(self) -> int:
        return len(self.clips)

    def __getitem__(self, index: int) -> torch.Tensor:
        return spectrogram(self.clips[index])  # cause


class Precomputed(Clips):
    def __init__(self, clips: np.ndarray) -> None:
        super().__init__(clips)
        self.features = torch.stack([spectrogram(clip) for clip in clips])

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.features[index]


class Spotter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(BANDS, 64, 5, padding=2), nn.ReLU(), nn.Conv1d(64, 64, 5, padding=2),
            nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 12),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch["labelled"]
        loss = nn.functional.cross_entropy(self.net(x.mT), y)
        soft = self.net(batch["raw"].mT).softmax(1)
        entropy = -(soft * (soft + 1e-6).log()).sum(1).mean()
        self.log_dict({"train_loss": loss, "entropy": entropy})
        return loss + 0.1 * entropy

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    clips = np.random.default_rng(0).normal(size=(600, 8000)).astype(np.float32)
    raw = (Precomputed if run.fixed else Clips)(clips)
    labelled = TensorDataset(torch.randn(960, 61, BANDS), torch.randint(12, (960,)))
    loaders = {
        "labelled": DataLoader(labelled, batch_size=32, shuffle=True),
        "raw": DataLoader(raw, batch_size=24, shuffle=True),
    }
    data = CombinedLoader(loaders, mode="max_size_cycle")
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Spotter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
