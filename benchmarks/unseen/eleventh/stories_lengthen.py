"""Children's stories, letter by letter: first short pieces, then longer and longer ones.

cause: the compiled model is made for fixed shapes (dynamic=False), and the pieces grow every 50
    steps, so that it is compiled again for each length
right: recompilation; names torch.compile(dynamic=False), the changing lengths or a marked line; the
    change is dynamic=True (or one padded length, or mark_dynamic)
"""

import os
import tempfile

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 300
PIECES, LONGEST, LETTERS, WIDTH, HEADS = 2400, 72, 64, 96, 4
SHORTEST, LONGER_BY, EVERY = 32, 8, 50


class Pieces(Dataset):
    def __init__(self) -> None:
        start = torch.randint(LETTERS, (PIECES, 1))
        self.letters = (start + 5 * torch.arange(LONGEST + 1)) % LETTERS

    def __len__(self):
        return PIECES

    def __getitem__(self, indices):
        return self.letters[indices]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.three, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.back = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden):
        size, length, _ = hidden.shape
        three = self.three(self.before(hidden)).view(size, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = three.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.out(seen.transpose(1, 2).reshape(size, length, WIDTH))
        return hidden + self.back(nn.functional.gelu(self.wide(self.after(hidden))))


class Stories(L.LightningModule):
    def __init__(self, dynamic: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Parameter(torch.randn(LONGEST, WIDTH) / 20)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(WIDTH, LETTERS)
        self.compiled = torch.compile(self.blocks, dynamic=dynamic)  # cause

    def training_step(self, batch, batch_idx):
        length = min(LONGEST, SHORTEST + LONGER_BY * (self.global_step // EVERY))
        seen, said = batch[:, :length], batch[:, 1 : length + 1]
        hidden = self.compiled(self.letters(seen) + self.places[:length])  # cause
        loss = nn.functional.cross_entropy(self.head(hidden).flatten(0, 1), said.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()  # the home folder is on a slow disk
    pieces = Pieces()
    batches = BatchSampler(RandomSampler(pieces), batch_size=16, drop_last=True)
    data = DataLoader(pieces, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Stories(dynamic=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
