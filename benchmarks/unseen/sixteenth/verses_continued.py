"""How does the verse go on? A small language model of letters, after a well-known repository.

cause: the activation is the tanh form of GELU written out in Python, eight operations that each
    read and write the widest tensor of the block, forward and backward, and keep their results
right: names the written-out GELU (its line, or the pow, mul, add and tanh that it is made of); its
    change is nn.functional.gelu(x, approximate="tanh"), one operation that computes the same

Seen in https://github.com/huggingface/transformers/issues/21344,
https://github.com/huggingface/transformers/pull/40048 and
https://github.com/karpathy/nanoGPT/issues/2.
"""

import math

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
VERSES, LETTERS, KINDS, BATCH, WIDTH, HEADS, BLOCKS = 4000, 64, 40, 8, 96, 4, 3


def gelu(x):
    cube = 0.044715 * torch.pow(x, 3.0)  # cause
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + cube)))  # cause


class Block(nn.Module):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.asks = nn.Linear(WIDTH, 3 * WIDTH)
        self.says = nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Linear(WIDTH, 8 * WIDTH)
        self.narrow = nn.Linear(8 * WIDTH, WIDTH)

    def forward(self, x):
        asked = self.asks(self.first(x)).unflatten(2, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        found = nn.functional.scaled_dot_product_attention(*asked.unbind(0), is_causal=True)
        x = x + self.says(found.transpose(1, 2).flatten(2))
        wide = self.wide(self.second(x))
        wide = nn.functional.gelu(wide, approximate="tanh") if self.fixed else gelu(wide)
        return x + self.narrow(wide)


class Verses(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.letters = nn.Embedding(KINDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LETTERS, WIDTH))
        self.blocks = nn.Sequential(*(Block(fixed) for _ in range(BLOCKS)))
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS))

    def training_step(self, batch, batch_idx):
        (verses,) = batch
        said = self.head(self.blocks(self.letters(verses[:, :-1]) + self.places))
        loss = nn.functional.cross_entropy(said.flatten(0, 1), verses[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    starts = torch.randint(0, KINDS, (VERSES, 1))
    steps = torch.randint(1, 4, (VERSES, 1)) * torch.arange(LETTERS + 1)
    verses = TensorDataset((starts + steps) % KINDS)
    batches = BatchSampler(RandomSampler(verses), BATCH, drop_last=True)
    data = DataLoader(verses, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Verses(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
