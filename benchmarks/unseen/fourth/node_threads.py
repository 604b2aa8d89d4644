"""River levels a day ahead, from the gauges upstream. Written for the big machine, run on a small.

seen in: pytorch/pytorch issue 125547 and vllm-project/vllm pull request 45124: more threads than
the cores that the process may use

cause: torch is told to compute with twelve threads, on two cores
accept: too-many-threads thread-contention @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 160
GAUGES, DAYS = 32, 96


class Levels(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(GAUGES, 96, 5, padding=2),
            nn.GELU(),
            nn.Conv1d(96, 96, 5, padding=2),
            nn.GELU(),
            nn.Flatten(),
            nn.Linear(96 * DAYS, GAUGES),
        )

    def training_step(self, batch, batch_idx):
        past, tomorrow = batch
        loss = nn.functional.mse_loss(self.net(past), tomorrow)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    if not run.fixed:
        torch.set_num_threads(12)  # cause
    past = TensorDataset(torch.randn(1024, GAUGES, DAYS), torch.randn(1024, GAUGES))
    data = DataLoader(past, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Levels(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
