"""Low-rank adapters (LoRA) in the feed-forward layers of a frozen language model.

cause: each forward adds B @ A to the frozen weight, so backward takes the gradient of a full matrix
accept: @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
WIDTH, RANK, LENGTH, VOCABULARY = 320, 8, 48, 1000


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank correction that learns."""

    def __init__(self, inside: int, outside: int, merged: bool) -> None:
        super().__init__()
        self.merged = merged
        self.frozen = nn.Linear(inside, outside).requires_grad_(False)
        self.a = nn.Parameter(torch.randn(RANK, inside) / inside**0.5)
        self.b = nn.Parameter(torch.zeros(outside, RANK))

    def forward(self, x):
        if self.merged:
            weight = self.frozen.weight + 2.0 * (self.b @ self.a)  # cause
            return nn.functional.linear(x, weight, self.frozen.bias)  # cause
        return self.frozen(x) + 2.0 * nn.functional.linear(x @ self.a.T, self.b)


class Block(nn.Module):
    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH).requires_grad_(False)
        self.up = Adapted(WIDTH, 2 * WIDTH, merged)
        self.down = Adapted(2 * WIDTH, WIDTH, merged)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))  # cause


class FineTune(L.LightningModule):
    def __init__(self, merged: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH).requires_grad_(False)
        self.blocks = nn.Sequential(*[Block(merged) for _ in range(4)])
        self.head = nn.Linear(WIDTH, VOCABULARY).requires_grad_(False)

    def training_step(self, batch, batch_idx):
        (ids,) = batch
        scores = self.head(self.blocks(self.embed(ids[:, :-1])))  # cause
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=1e-4)


def main(run: Run) -> None:
    texts = TensorDataset(torch.randint(VOCABULARY, (1600, LENGTH + 1)))
    data = DataLoader(texts, batch_size=4, shuffle=True)
    model = FineTune(merged=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
