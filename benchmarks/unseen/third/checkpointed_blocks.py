"""A language model of protein sequences that once had to fit a small card.

seen in: huggingface/peft issue 1142, "How to do Gradient Checkpoint + LoRA"

cause: every block's activations are thrown away and computed again in backward, to save memory
that is not short here
accept: repeated-forward @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

STEPS = 220
RESIDUES, LENGTH, WIDTH = 24, 96, 96


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Protein(L.LightningModule):
    def __init__(self, save_memory: bool) -> None:
        super().__init__()
        self.save_memory = save_memory
        self.embed, self.position = nn.Embedding(RESIDUES, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.head = nn.Linear(WIDTH, RESIDUES)

    def forward(self, residues):
        x = self.embed(residues) + self.position.weight
        for block in self.blocks:
            if self.save_memory:
                x = checkpoint(block, x, use_reentrant=False)  # cause
            else:
                x = block(x)
        return self.head(x)

    def training_step(self, batch, batch_idx):
        (residues,) = batch
        hidden = torch.rand(residues.shape) < 0.15
        scores = self(residues.masked_fill(hidden, RESIDUES - 1))  # cause
        loss = nn.functional.cross_entropy(scores[hidden], residues[hidden])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


def main(run: Run) -> None:
    proteins = TensorDataset(torch.randint(RESIDUES - 1, (960, LENGTH)))
    data = DataLoader(proteins, batch_size=8, shuffle=True)
    model = Protein(save_memory=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
