"""A causal language model: accumulated batches, clipping, warm-up, validation now and then.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 70  # of the optimizer, four batches each
LENGTH, WIDTH, VOCABULARY = 96, 96, 800


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(2, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LanguageModel(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(2)])
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def loss(self, batch):
        (ids,) = batch
        scores = self.head(self.blocks(self.embed(ids[:, :-1]) + self.position.weight))
        return nn.functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
        return [optimizer], [{"scheduler": warm_up, "interval": "step"}]


def texts(count: int) -> TensorDataset:
    return TensorDataset(torch.randint(VOCABULARY, (count, LENGTH + 1)))


def main(run: Run) -> None:
    trainer = L.Trainer(
        callbacks=run.callbacks, accumulate_grad_batches=4, gradient_clip_val=1.0, **run.trainer
    )
    training = DataLoader(texts(1600), batch_size=8, shuffle=True, drop_last=True)
    trainer.fit(LanguageModel(), training, DataLoader(texts(32), batch_size=16))


if __name__ == "__main__":
    main(arguments(STEPS))
