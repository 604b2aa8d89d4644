"""A training that becomes slow: from batch 1,500 on, a callback sorts weights after each batch.

`python tests/slowing_training.py LOGDIR [BATCHES]` trains it with GpuProfCallback.
"""

import sys

import torch
from lightning.pytorch import Callback, LightningModule, Trainer, seed_everything
from lightning.pytorch.loggers import TensorBoardLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset

from lightning_gpuprof import GpuProfCallback

SLOW_FROM = 1500


class Signals(Dataset):
    """Noise, and its running sum."""

    def __init__(self, batches):
        self.length = 64 * batches

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        noise = torch.randn(64, generator=torch.Generator().manual_seed(index))
        return noise, noise.cumsum(0)


class RunningSum(LightningModule):
    """Learns to sum up."""

    def __init__(self):
        super().__init__()
        hidden = [nn.Linear(64, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU()]
        self.net = nn.Sequential(*hidden, nn.Linear(640, 64))

    def training_step(self, batch, index):
        noise, total = batch
        return nn.functional.mse_loss(self.net(noise), total)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


class WeightWatch(Callback):
    """Notes how the weights are spread once they have settled."""

    def __init__(self):
        self.spread = []

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if index < SLOW_FROM:
            return
        weights = torch.cat([weight.detach().flatten() for weight in module.parameters()])
        quarter = weights[::4].sort().values
        self.spread.append(quarter[:: len(quarter) // 9].tolist())


if __name__ == "__main__":
    seed_everything(0)
    torch.set_num_threads(1)
    batches = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    Trainer(
        max_epochs=1,
        accelerator="cpu",
        callbacks=[GpuProfCallback(), WeightWatch()],
        logger=TensorBoardLogger(sys.argv[1], name="", version="version_0"),
        log_every_n_steps=100,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(RunningSum(), DataLoader(Signals(batches), batch_size=64))
