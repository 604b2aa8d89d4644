"""Letters of a play, one after the other: a small language model after a video course.

seen in: leffff/graphormer-pyg issue 24, "The code will be very slow" (a for loop over the heads),
and eubinean/the-clean-transformer issue 13

cause: the heads of attention are modules in a list, each called on its own
right: names the many small operations of the heads with the advice to batch or fuse them (one
    projection for all heads, scaled_dot_product_attention), or points at a marked line first with
    such advice
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 200
LETTERS, LENGTH, WIDTH, HEADS, LAYERS = 65, 32, 96, 12, 3


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        size = WIDTH // HEADS
        self.key = nn.Linear(WIDTH, size, bias=False)
        self.query = nn.Linear(WIDTH, size, bias=False)
        self.value = nn.Linear(WIDTH, size, bias=False)
        self.register_buffer("past", torch.ones(LENGTH, LENGTH).tril().bool())

    def forward(self, x):
        key, query = self.key(x), self.query(x)  # cause
        weights = query @ key.mT * key.shape[-1] ** -0.5  # cause
        weights = weights.masked_fill(~self.past, float("-inf")).softmax(dim=-1)  # cause
        return weights @ self.value(x)  # cause


class ListOfHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head() for _ in range(HEADS))
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return self.out(torch.cat([head(x) for head in self.heads], dim=-1))  # cause


class Heads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.into(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, together: bool) -> None:
        super().__init__()
        self.heads = Heads() if together else ListOfHeads()
        self.net = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x):
        x = x + self.heads(self.before(x))
        return x + self.net(self.between(x))


class Play(L.LightningModule):
    def __init__(self, together: bool) -> None:
        super().__init__()
        self.letters, self.places = nn.Embedding(LETTERS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block(together) for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, LETTERS)

    def training_step(self, batch, batch_idx):
        letters, after = batch
        x = self.letters(letters) + self.places.weight
        scores = self.head(self.blocks(x))
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), after.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    text = torch.randint(LETTERS, (20_000,))
    pieces = text.unfold(0, LENGTH + 1, 8)
    data = DataLoader(
        TensorDataset(pieces[:, :-1], pieces[:, 1:]), batch_size=16, shuffle=True, drop_last=True
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Play(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
