"""Reads genomes six letters at a time and guesses what comes next: a small causal transformer.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 110
BATCH, LONG, WIDTH, HEADS, DEPTH = sized((32, 512, 512, 8, 8), (2, 32, 32, 2, 2))
WORDS = 4096


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
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm_two(x))


class Genomes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LONG, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.out = nn.Linear(WIDTH, WORDS)

    def loss(self, words):
        scores = self.out(self.blocks(self.words(words[:, :-1]) + self.places))
        return nn.functional.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch[0])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch[0]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


def batches(number: int, workers: int) -> DataLoader:
    data = TensorDataset(torch.randint(WORDS, (number * BATCH, LONG + 1)))
    return DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data), BATCH, drop_last=True),
        batch_size=None,
        num_workers=workers,
        pin_memory=True,
        persistent_workers=workers > 0,
    )


def main(run: Run) -> None:
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Genomes(), batches(60, 2), batches(2, 0))


if __name__ == "__main__":
    main(arguments(STEPS))
