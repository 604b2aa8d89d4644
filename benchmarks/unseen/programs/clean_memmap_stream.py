"""Bytes of old books from one file: windows of a memory map, read by a worker that stays."""

import numpy as np
import torch
from case import Module, Run, cross_entropy
from torch import nn
from torch.utils.data import DataLoader

STEPS, LENGTH, WIDTH = 220, 64, 144


class Books:
    """Item i is a batch of 20 windows that begin at random places."""

    def __init__(self, path):
        text = np.random.default_rng(0).integers(32, 127, 2_000_000, np.uint8)
        path.write_bytes(text.tobytes())
        self.bytes = np.memmap(path, dtype=np.uint8, mode="r")

    def __len__(self):
        return 150

    def __getitem__(self, i):
        starts = torch.randint(len(self.bytes) - LENGTH - 1, (20, 1)).numpy()
        return torch.from_numpy(self.bytes[starts + np.arange(LENGTH + 1)]).long()


class ByteModel(Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(256, 64), nn.LSTM(64, WIDTH, batch_first=True)
        self.head = nn.Linear(WIDTH, 256)

    def loss(self, batch):
        return cross_entropy(self.head(self.lstm(self.embed(batch[:, :-1]))[0]), batch[:, 1:])


def main(run: Run) -> None:
    stay = {"num_workers": 1, "persistent_workers": True}
    data = DataLoader(Books(run.root / "books.bin"), batch_size=None, **stay)
    run.fit(ByteModel(), data, gradient_clip_val=1.0)
