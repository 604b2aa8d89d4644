"""Does this star pulsate? Convolutions over light curves whose noise can be repeated.

cause: __getitem__ seeds torch's global generator for each curve (torch.manual_seed), so that the
    noise of a curve is always the same; this also seeds every kind of accelerator there could be,
    for each of which a stack trace is written into a queue
right: names torch.manual_seed in __getitem__ (the seeding of each sample); its change is a
    torch.Generator of the dataset's own, seeded with the same number, or noise drawn once

Seen in https://github.com/pytorch/pytorch/issues/55768 (a seed set for each sample in the loader).
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
STARS, NIGHTS, BATCH, WIDTH = 9600, 256, 48, 40


class LightCurves(Dataset):
    def __init__(self, fixed) -> None:
        self.fixed = fixed
        self.own = torch.Generator()
        self.pulsates = torch.randint(0, 2, (STARS,))
        self.periods = 5 + 40 * torch.rand(STARS)
        self.nights = torch.arange(NIGHTS, dtype=torch.float32)

    def __len__(self):
        return STARS

    def noise(self, index):
        if self.fixed:
            return torch.randn(NIGHTS, generator=self.own.manual_seed(index))
        torch.manual_seed(index)  # cause
        return torch.randn(NIGHTS)

    def __getitem__(self, index):
        wave = torch.sin(self.nights / self.periods[index]) * self.pulsates[index]
        return (0.5 * wave + self.noise(index)).unsqueeze(0), self.pulsates[index]


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, WIDTH, 9, padding=4),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(WIDTH, 2 * WIDTH, 9, padding=4),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(2 * WIDTH, 2 * WIDTH, 9, padding=4),
            nn.ReLU(),
            nn.AdaptiveAvgPool1d(1),
            nn.Flatten(),
            nn.Linear(2 * WIDTH, 2),
        )

    def training_step(self, batch, batch_idx):
        curves, pulsates = batch
        loss = nn.functional.cross_entropy(self.net(curves), pulsates)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(LightCurves(run.fixed), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
