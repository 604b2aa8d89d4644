"""A character model with local attention, written to be read.

cause: the attention mask is built cell by cell in nested Python loops in every forward
accept: host-bound @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 500
LENGTH, NEAR, VOCABULARY = 160, 32, 90


def build_mask(length: int, near: int) -> torch.Tensor:
    rows = []
    for i in range(length):  # cause
        row = []
        for j in range(length):  # cause
            visible = j <= i and i - j < near  # cause
            row.append(0.0 if visible else float("-inf"))  # cause
        rows.append(row)
    return torch.tensor(rows)  # cause


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, mask):
        q, k, v = self.qkv(self.norm(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return x + self.out(y.transpose(1, 2).flatten(2))


class CharModel(L.LightningModule):
    def __init__(self, cache: bool) -> None:
        super().__init__()
        self.mask = build_mask(LENGTH, NEAR) if cache else None
        self.embed = nn.Embedding(VOCABULARY, 96)
        self.blocks = nn.ModuleList([Block(96) for _ in range(2)])
        self.head = nn.Linear(96, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids)
        mask = self.mask if self.mask is not None else build_mask(ids.shape[1], NEAR)  # cause
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)

    def training_step(self, batch, batch_idx):
        (ids,) = batch
        scores = self(ids[:, :-1])  # cause
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    texts = TensorDataset(torch.randint(VOCABULARY, (2000, LENGTH + 1)))
    data = DataLoader(texts, batch_size=4, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(CharModel(cache=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
