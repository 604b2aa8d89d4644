"""A tagger of ten small residual layers whose gradients are watched since they once vanished.

seen in: Lightning-AI/pytorch-lightning issues 1462 and 11471, on gradient norms of every parameter

cause: before every update the norm of each parameter's gradient is taken and logged
accept: slow-callback slow-logging @line
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.utilities import grad_norm
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
WORDS, TAGS, LENGTH, WIDTH = 2000, 18, 40, 80


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.conv = nn.Conv1d(WIDTH, 2 * WIDTH, 3, padding=1)

    def forward(self, x):
        gated = nn.functional.glu(self.conv(self.norm(x).mT), dim=1)
        return x + gated.mT


class Tagger(L.LightningModule):
    def __init__(self, every_n_steps: int) -> None:
        super().__init__()
        self.every_n_steps = every_n_steps
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.Sequential(*[Layer() for _ in range(10)])
        self.head = nn.Linear(WIDTH, TAGS)

    def training_step(self, batch, batch_idx):
        words, tags = batch
        scores = self.head(self.layers(self.embed(words)))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tags.flatten())
        self.log("train_loss", loss)
        return loss

    def on_before_optimizer_step(self, optimizer):
        if self.trainer.global_step % self.every_n_steps == 0:
            self.log_dict(grad_norm(self, norm_type=2))  # cause

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    lines = TensorDataset(torch.randint(WORDS, (1280, LENGTH)), torch.randint(TAGS, (1280, LENGTH)))
    data = DataLoader(lines, batch_size=12, shuffle=True)
    model = Tagger(every_n_steps=50 if run.fixed else 1)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
