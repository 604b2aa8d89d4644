"""Which letters has the papyrus lost? A transformer, with its use of the machine logged.

cause: a callback counts the floating point operations of every step with FlopCounterMode, which
    sends each operation of forward and backward through Python; the count is always the same
right: names the FlopCounterMode that the callback holds open around every step (a dispatch mode);
    its change is to count the first step only and to reuse its count

Seen in https://github.com/pytorch/pytorch/pull/187927 (the counter's "huge overhead") and
https://github.com/modal-labs/multinode-training-guide/pull/26.
"""

import time

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.flop_counter import FlopCounterMode

STEPS = 150
LETTERS, LENGTH, LINES, BATCH, WIDTH, DEPTH = 30, 48, 4000, 16, 96, 4


class Papyri(Dataset):
    def __init__(self) -> None:
        starts = torch.randint(0, LETTERS, (LINES, 1))
        self.lines = 1 + (starts + torch.arange(LENGTH) * (1 + starts % 3)) % (LETTERS - 1)
        self.lost = torch.rand(LINES, LENGTH) < 0.2

    def __len__(self):
        return LINES

    def __getitem__(self, index):
        return self.lines[index], self.lost[index]


class Utilisation(L.Callback):
    """Logs how many operations a second the training does."""

    def __init__(self, fixed) -> None:
        self.fixed = fixed
        self.counter, self.operations, self.began = None, None, 0.0

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.began = time.perf_counter()
        if self.operations is None or not self.fixed:
            self.counter = FlopCounterMode(display=False)
            self.counter.__enter__()  # cause

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if self.counter is not None:
            self.counter.__exit__(None, None, None)
            self.operations = self.counter.get_total_flops()
            self.counter = None
        module.log("flops", self.operations / (time.perf_counter() - self.began))


class Restorer(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(LETTERS, WIDTH)
        self.places = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(
            WIDTH, 4, 3 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, LETTERS)

    def training_step(self, batch, batch_idx):
        lines, lost = batch
        left = lines.masked_fill(lost, 0)
        said = self.out(self.encoder(self.letters(left) + self.places))
        asked = lines.masked_fill(~lost, -100)
        loss = nn.functional.cross_entropy(said.flatten(0, 1), asked.flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=5e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Papyri(), batch_size=BATCH, shuffle=True, drop_last=True)
    callbacks = [*run.callbacks, Utilisation(run.fixed)]
    trainer = L.Trainer(callbacks=callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Restorer(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
