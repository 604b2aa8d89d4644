"""Fills gaps in protein chains: a masked language model of residues, written on an older card.

seen in: Nerogar/OneTrainer issue 40, "option to disable gradient checkpointing", and
LTH14/mar pull 7 (a step from 0.78 to 0.94 s for memory that an 80 GB card has)

cause: every block is checkpointed, so its forward pass is computed again in the backward pass,
    though the activations would take a few of the card's 80 GB
right: says that blocks are computed twice (checkpoint, recomputation in the backward pass) while
    memory is left; its change is to leave the checkpoint out, for all or some blocks. Advice to
    use a larger batch for the free memory alone is not right
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 70, 200
BATCH, LONG, WIDTH, HEADS, DEPTH = sized((40, 512, 768, 12, 8), (2, 32, 32, 2, 2))
RESIDUES, MASK = 25, 24


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm_two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.into, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        parts = self.into(self.norm(x)).unflatten(2, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_two(x))


class Chains(L.LightningModule):
    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.kept = kept
        self.residues = nn.Embedding(RESIDUES, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LONG, WIDTH))
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.out = nn.Linear(WIDTH, RESIDUES)

    def forward(self, chains):
        x = self.residues(chains) + self.places
        for block in self.blocks:
            if self.kept:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=False)  # cause
        return self.out(x)

    def training_step(self, batch, batch_idx):
        masked, chains = batch
        loss = nn.functional.cross_entropy(self(masked).flatten(0, 1), chains.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def main(run: Run) -> None:
    chains = torch.randint(MASK, (10 * BATCH, LONG))
    masked = chains.masked_fill(torch.rand(chains.shape) < 0.15, MASK)
    data = TensorDataset(masked, chains)
    batches = DataLoader(
        data, BATCH, sampler=RandomSampler(data, num_samples=EPOCH * BATCH), drop_last=True
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Chains(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
