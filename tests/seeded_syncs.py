"""Training loops with known host syncs: each line that makes one ends in a remark."""

import re
from pathlib import Path

import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader
from torchmetrics import Metric


def expected(file=__file__):
    """Return (line, owner) of each marked line."""
    lines = enumerate(Path(file).read_text(encoding="utf-8").splitlines(), start=1)
    marked = ((number, re.search(r"# .*sync: (\S+)$", line)) for number, line in lines)
    return sorted((number, found[1]) for number, found in marked if found)


def norm_of(tensor):
    return tensor.norm().item()  # sync: user


class Range(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("total", default=torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, values):
        if values.max() > 1e9:  # sync: metric
            raise ValueError("out of range")
        self.total += values.sum()

    def compute(self):
        return self.total


class GradientWatcher(Callback):
    def on_after_backward(self, trainer, pl_module):
        self.last = pl_module.layer.weight.grad.abs().max().item()  # sync: callback:GradientWatcher


class Seeded(BoringModel):
    """Ten known syncs a step."""

    def __init__(self):
        super().__init__()
        self.total = 0.0
        self.metric = Range()
        self.weights = [1.0] * 32

    def training_step(self, batch, batch_idx):
        output = self.layer(batch)
        scale = torch.tensor(self.weights).to(self.device)  # sync: user
        loss = (output.sum(1) * scale[0]).mean()
        self.total += loss.item()  # sync: user
        norm_of(output.detach())
        positive = output[output > 0]  # sync: user
        positive.sum()
        print(loss.detach())  # noqa: T201 - sync: user
        output.detach().mean(0).tolist()  # sync: user
        self.metric.update(output.detach())
        wait = torch.cuda.synchronize if batch.is_cuda else torch.cpu.synchronize
        wait()  # sync: user
        self.log("loss", loss, prog_bar=True)  # sync: lightning
        return loss

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 256), batch_size=4)


class Clean(BoringModel):
    """Does much that looks like a sync and is none."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(()))

    def training_step(self, batch, batch_idx):
        output = self.layer(batch)
        loss = torch.nn.functional.mse_loss(output, torch.ones_like(output))
        self.total += loss.detach()
        lengths = torch.tensor([3, 1, 2])
        longest = int(lengths.max())  # on the host all along
        kept = lengths[lengths > 1].tolist()
        masked = torch.where(output > 0, output, 0.0).sum() * longest * len(kept)
        output.detach().masked_fill(output > 0, 0.0)
        rows = batch[torch.zeros(2, dtype=torch.long, device=self.device)]
        self.log("loss", loss)
        return loss + 0 * masked + 0 * rows.sum()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)

    def train_dataloader(self):
        return DataLoader(Odd(), batch_size=4, shuffle=True)


class Odd(torch.utils.data.Dataset):
    """Reads values while it loads, on the host."""

    def __len__(self):
        return 256

    def __getitem__(self, index):
        row = torch.randn(32)
        return row * row.max().item() + row[row > 0].sum()
