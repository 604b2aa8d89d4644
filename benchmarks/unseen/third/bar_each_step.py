"""Poses from wearable sensors, with everything of interest in the progress bar.

seen in: Lightning-AI/pytorch-lightning issue 13179, "tqdm progress bar in v1.6 is slower than
v1.5", and ourownstory/neural_prophet pull request 1003

cause: the progress bar is drawn anew, with sixteen numbers, after each of the quick steps
accept: slow-callback @line
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import TQDMProgressBar
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 700
SENSORS, JOINTS = 54, 15


class Poses(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(SENSORS, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU())
        self.head = nn.Linear(192, 3 * JOINTS)

    def training_step(self, batch, batch_idx):
        signals, joints = batch
        errors = (self.head(self.net(signals)).unflatten(1, (JOINTS, 3)) - joints).norm(dim=2)
        named = {f"joint_{i}": error for i, error in enumerate(errors.detach().mean(0))}
        self.log_dict({"train_loss": errors.mean(), **named}, prog_bar=True)  # cause
        return errors.mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    moves = TensorDataset(torch.randn(6400, SENSORS), torch.randn(6400, JOINTS, 3))
    data = DataLoader(moves, batch_size=32, shuffle=True)
    bar = TQDMProgressBar(refresh_rate=100 if run.fixed else 1)  # cause
    options = {**run.trainer, "enable_progress_bar": True}
    L.Trainer(callbacks=[bar, *run.callbacks], **options).fit(Poses(), data)  # cause


if __name__ == "__main__":
    main(arguments(STEPS))
