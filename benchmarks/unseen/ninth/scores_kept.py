"""Denoises galaxies, patch by patch, with a transformer over 1,024 patches of each.

seen in: LTH14/JiT issue 15, "Potential choice of using F.scaled_dot_product_attention" (its own
attention, copied from a paper's code; the fused one trained faster), and
facebookresearch/multimodal pull 538

cause: attention is written by hand: the scores of all pairs of patches are written to memory and
    read again by the scaling, the softmax and the casts between
right: names the attention written out (a marked line, or its softmax, matmul or elementwise
    kernels of that forward) as what takes the time; its change is scaled_dot_product_attention (or
    another fused attention)
"""

import math

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 80, 200
BATCH, SIDE, WIDTH, HEADS, DEPTH = sized((16, 128, 512, 8, 6), (2, 16, 32, 2, 2))
PATCH = 4


class Attention(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.into = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        parts = self.into(x).unflatten(2, (3, HEADS, WIDTH // HEADS))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind()
        if self.fused:
            seen = nn.functional.scaled_dot_product_attention(query, key, value)
        else:
            scores = query @ key.transpose(-2, -1)  # cause
            scores = scores * (1 / math.sqrt(WIDTH // HEADS))  # cause
            weights = scores.softmax(dim=-1)  # cause
            seen = weights @ value  # cause
        return self.out(seen.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), Attention(fused)
        self.norm_two = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(self.norm_two(x))


class Galaxies(L.LightningModule):
    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.into = nn.Linear(PATCH**2, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn((SIDE // PATCH) ** 2, WIDTH))
        self.blocks = nn.Sequential(*[Block(fused) for _ in range(DEPTH)])
        self.out = nn.Linear(WIDTH, PATCH**2)

    def training_step(self, batch, batch_idx):
        clean, noisy = batch
        loss = nn.functional.mse_loss(self.out(self.blocks(self.into(noisy) + self.places)), clean)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=True)


def main(run: Run) -> None:
    clean = torch.rand(16 * BATCH, (SIDE // PATCH) ** 2, PATCH**2)
    data = TensorDataset(clean, clean + 0.3 * torch.randn_like(clean))
    batches = DataLoader(
        data, BATCH, sampler=RandomSampler(data, num_samples=EPOCH * BATCH), drop_last=True
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Galaxies(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
