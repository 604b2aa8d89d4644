"""Spoken numbers of different lengths, put into batches of like length.

Reported in huggingface/finetrainers issue 206, "Using BucketSampler makes loading data extremely
slow".

cause: to learn their lengths, the sampler decodes all recordings at the start of each epoch
right: names the sampler or a marked line as what an epoch waits for before its first batch; the
    change is to keep the lengths
"""

import numpy as np
import torch
from case import Items, Run, Supervised, convs
from torch import nn
from torch.utils.data import DataLoader

STEPS, RECORDINGS, SIZE, NUMBERS = 300, 1200, 16, 10


class Recordings(Items):
    def __getitem__(self, index):
        coded, number = self.items[index]
        level = coded.astype(np.float32) / 127.5 - 1
        wave = np.sign(level) * np.expm1(np.abs(level) * np.log(256.0)) / 255
        frames = np.lib.stride_tricks.sliding_window_view(wave, 160)[::40]
        spectrum = np.abs(np.fft.rfft(frames * np.hanning(160), axis=1))
        spectrum = spectrum[: len(frames) // 4 * 4].reshape(-1, 4, 81).mean(1)
        return torch.from_numpy(np.log1p(spectrum[:, :40].T).astype(np.float32)), number


class Buckets:
    """Draws batches of recordings of one length."""

    def __init__(self, data, lengths):
        self.data, self.lengths = data, lengths

    def __len__(self):
        return RECORDINGS // SIZE

    def __iter__(self):
        lengths = self.lengths or [self.data[n][0].shape[1] for n in range(len(self.data))]  # cause
        order = torch.tensor(lengths) + torch.rand(len(lengths))
        batches = order.argsort().split(SIZE)
        return iter(batches[n].tolist() for n in torch.randperm(len(batches)).tolist())


def cut(samples):
    shortest = min(spectrum.shape[1] for spectrum, _ in samples)
    spectra = torch.stack([spectrum[:, :shortest] for spectrum, _ in samples])
    return spectra, torch.tensor([number for _, number in samples])


def main(run: Run) -> None:
    frames = torch.randint(60, 140, (RECORDINGS,)).tolist()
    coded = [np.random.randint(0, 256, 160 * count, dtype=np.uint8) for count in frames]
    data = Recordings(list(zip(coded, torch.randint(NUMBERS, (RECORDINGS,)).tolist(), strict=True)))
    sampler = Buckets(data, frames if run.fixed else None)  # cause
    layers = convs((40, 32, 5, 2), (32, 64, 5, 2), dims=1)
    model = Supervised(layers, nn.Linear(64, NUMBERS))
    run.fit(model, DataLoader(data, batch_sampler=sampler, collate_fn=cut))
