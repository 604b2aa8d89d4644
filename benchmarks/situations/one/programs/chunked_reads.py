"""Seismic windows, 90 to a compressed chunk on disk; the loader takes windows at random.

source: zarr-developers/zarr-python #567 "How to improve random access time via dask?"
cause: a chunk of 90 windows is read and decompressed for each single window that is asked for
right: names the reading (read_chunk, zlib.decompress, __getitem__ or a marked line) as what the wait
    for data goes to, with the advice to keep chunks, to draw whole chunks, or to store windows singly
"""

import zlib

import numpy as np
import torch
from case import Items, Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS = 250
PER_CHUNK, WIDTH = 90, 512


def read_chunk(path):
    return np.frombuffer(zlib.decompress(path.read_bytes()), np.float32).reshape(-1, WIDTH)  # cause


class Windows(Items):
    def __getitem__(self, index):
        chunk = read_chunk(self.items[index // PER_CHUNK])  # cause
        window = torch.from_numpy(chunk[index % PER_CHUNK].copy())
        return window[None], window[:4].mean()

    def __len__(self):
        return len(self.items) * PER_CHUNK


class Kept(Windows):
    def __init__(self, items):
        self.items = items
        self.rows = np.concatenate([read_chunk(path) for path in items])

    def __getitem__(self, index):
        window = torch.from_numpy(self.rows[index])
        return window[None], window[:4].mean()


def main(run: Run) -> None:
    rng, paths = np.random.default_rng(2), []
    for number in range(40):
        rows = rng.integers(-60, 60, (PER_CHUNK, WIDTH)).astype(np.float32) / 16
        paths.append(run.root / f"chunk{number}.z")
        paths[-1].write_bytes(zlib.compress(rows.tobytes(), 3))
    data = DataLoader((Kept if run.fixed else Windows)(paths), batch_size=24, shuffle=True)
    net = convs((1, 24, 7, 2), (24, 48, 5, 2), dims=1), nn.Linear(48, 1), nn.Flatten(0)
    run.fit(Supervised(*net, loss=nn.functional.mse_loss), data)
