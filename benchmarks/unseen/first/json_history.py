"""A CNN whose results go to a logger of our own, for a dashboard that reads one JSON file.

cause: the logger writes the whole history of metrics anew at every logged step
accept: slow-logging
"""

import json
from pathlib import Path

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers import Logger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600


class JsonHistory(Logger):
    def __init__(self, folder: Path, append: bool) -> None:
        super().__init__()
        self.folder, self.append = folder, append
        self.history: list[dict[str, float]] = []
        folder.mkdir(parents=True, exist_ok=True)

    name = "dashboard"
    version = "0"

    @property
    def log_dir(self) -> str:
        return str(self.folder)

    def log_hyperparams(self, *args, **kwargs):
        pass

    def log_metrics(self, metrics, step=None):
        row = {"step": step, **metrics}
        if self.append:
            with (self.folder / "history.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            return
        self.history.append(row)
        (self.folder / "history.json").write_text(json.dumps(self.history, indent=2))  # cause


class Digits(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3),
            nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(216, 10),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        scores = self.net(x)
        loss = nn.functional.cross_entropy(scores, y)
        accuracy = (scores.argmax(1) == y).float().mean()
        self.log_dict({"loss": loss, "accuracy": accuracy, "confidence": scores.softmax(1).mean(),
                       "spread": scores.std(), "largest": scores.max()})  # fmt: skip
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    images = TensorDataset(torch.rand(3200, 1, 28, 28), torch.randint(10, (3200,)))
    data = DataLoader(images, batch_size=64, shuffle=True)
    logger = JsonHistory(run.root / "dashboard", append=run.fixed)
    trainer = L.Trainer(callbacks=run.callbacks, logger=logger, log_every_n_steps=1, **run.trainer)
    trainer.fit(Digits(), data)


GROWS = True  # the longer the run, the more the cause takes of a step

if __name__ == "__main__":
    main(arguments(STEPS))
