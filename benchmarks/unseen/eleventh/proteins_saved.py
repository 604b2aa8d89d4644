"""Masked amino acids: a small protein language model on a machine that may be taken away.

cause: a checkpoint of model and optimizer is written every 10 steps
right: time in checkpoints; names ModelCheckpoint / every_n_train_steps=10 (or a marked line); the
    change saves less often (or without the optimizer's state)
"""

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
PROTEINS, LENGTH, ACIDS, MASK, WIDTH = 1500, 40, 22, 21, 192


class Language(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.acids = nn.Embedding(ACIDS, WIDTH)
        self.places = nn.Parameter(torch.randn(LENGTH, WIDTH) / 50)
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, ACIDS)

    def training_step(self, batch, batch_idx):
        (acids,) = batch
        hidden = torch.rand(acids.shape, device=acids.device) < 0.15
        seen = acids.masked_fill(hidden, MASK)
        guessed = self.head(self.encoder(self.acids(seen) + self.places)[hidden])
        loss = nn.functional.cross_entropy(guessed, acids[hidden])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4, weight_decay=0.01, fused=True)
        warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=100)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": warm, "interval": "step"}}


def main(run: Run) -> None:
    acids = torch.randint(20, (PROTEINS, LENGTH))
    acids[:, 1::2] = (acids[:, ::2] * 3 + 1) % 20
    data = DataLoader(TensorDataset(acids), batch_size=12, shuffle=True, drop_last=True)
    save = ModelCheckpoint(
        dirpath=run.root / "checkpoints",
        filename="last-{step}",
        every_n_train_steps=200 if run.fixed else 10,  # cause
        save_top_k=1,
    )
    trainer = L.Trainer(callbacks=[save, *run.callbacks], **run.trainer)
    trainer.fit(Language(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
