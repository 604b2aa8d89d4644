"""Bytes of old books from one file: windows of a memory map, read by a worker that stays.

accept: none
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 220
LENGTH, WIDTH = 64, 144


class Books(Dataset):
    """Item i is a batch of windows that begin at random places."""

    def __init__(self, path, batch: int, per_epoch: int) -> None:
        self.bytes = np.memmap(path, dtype=np.uint8, mode="r")
        self.batch, self.per_epoch = batch, per_epoch

    def __len__(self) -> int:
        return self.per_epoch

    def __getitem__(self, i: int):
        starts = torch.randint(len(self.bytes) - LENGTH - 1, (self.batch, 1)).numpy()
        return torch.from_numpy(self.bytes[starts + np.arange(LENGTH + 1)]).long()


class ByteModel(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(256, 64)
        self.lstm = nn.LSTM(64, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 256)

    def training_step(self, batch, batch_idx):
        scores = self.head(self.lstm(self.embed(batch[:, :-1]))[0])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), batch[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def main(run: Run) -> None:
    run.root.mkdir(parents=True, exist_ok=True)
    path = run.root / "books.bin"
    path.write_bytes(np.random.default_rng(0).integers(32, 127, 2_000_000, np.uint8).tobytes())
    books = Books(path, batch=20, per_epoch=150)
    data = DataLoader(books, batch_size=None, num_workers=1, persistent_workers=True)
    L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer).fit(ByteModel(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
