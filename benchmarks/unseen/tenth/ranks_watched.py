"""Which enzyme does it inhibit? A deep classifier of molecular fingerprints, its rank watched.

cause: a callback left from a study of rank collapse takes the singular values of each weight matrix
    after every fifth step; every 250 steps tell as much
right: names RankWatch (the callback) or its on_train_batch_end, or points at a marked line first;
    its change calls it far less often, leaves it out, or takes the rank of less
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 350
COUNT, BITS, ENZYMES = 12800, 1024, 40


class RankWatch(L.Callback):
    """Follows the effective rank of the weights: the entropy of their singular values."""

    def __init__(self, every_n_steps) -> None:
        self.every_n_steps = every_n_steps
        self.ranks = {}

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx) -> None:
        if trainer.global_step % self.every_n_steps:
            return
        for name, weight in pl_module.named_parameters():
            if weight.ndim == 2:
                sizes = torch.linalg.svdvals(weight)  # cause
                shares = sizes / sizes.sum()
                rank = torch.exp(-(shares * shares.clamp_min(1e-9).log()).sum())
                self.ranks.setdefault(name, []).append(rank)


class Block(nn.Module):
    def __init__(self, width) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.gelu(self.inner(self.norm(x)))


class Inhibitors(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        blocks = [Block(256) for _ in range(4)]
        self.net = nn.Sequential(nn.Linear(BITS, 256), *blocks, nn.Linear(256, ENZYMES))

    def training_step(self, batch, batch_idx):
        fingerprints, active = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(fingerprints), active)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, weight_decay=0.05, fused=True)


def molecules():
    fingerprints = (torch.rand(COUNT, BITS) < 0.06).float()
    active = (fingerprints @ torch.randn(BITS, ENZYMES) > 6).float()
    return TensorDataset(fingerprints, active)


def main(run: Run) -> None:
    watch = RankWatch(every_n_steps=250 if run.fixed else 5)  # cause
    data = DataLoader(molecules(), batch_size=128, shuffle=True)
    trainer = L.Trainer(callbacks=[watch, *run.callbacks], **run.trainer)
    trainer.fit(Inhibitors(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
