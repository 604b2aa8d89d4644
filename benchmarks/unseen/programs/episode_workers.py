"""Prototypical networks: 5-way 5-shot episodes drawn by worker processes.

cause: an epoch is 12 episodes, and each epoch starts its two workers anew
accept: worker-startup slow-epoch-start
"""

import torch
from case import Module, Run
from torch import nn
from torch.utils.data import DataLoader

STEPS, WAYS, SHOTS, QUERIES = 450, 5, 5, 10


class Episodes:
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return 12

    def __getitem__(self, i):
        classes = torch.randperm(len(self.images))[:WAYS]
        drawn = [self.images[c, torch.randperm(20)[: SHOTS + QUERIES]] for c in classes]
        return torch.stack(drawn)


def block(inputs, outputs):
    conv, norm = nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs)
    return nn.Sequential(conv, norm, nn.ReLU(), nn.MaxPool2d(2))


class Prototypes(Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(block(1, 8), block(8, 16), block(16, 32), nn.Flatten())

    def loss(self, batch):
        both = self.encoder(batch.flatten(0, 1)).unflatten(0, (WAYS, SHOTS + QUERIES))
        scores = -torch.cdist(both[:, SHOTS:].flatten(0, 1), both[:, :SHOTS].mean(dim=1))
        return nn.functional.cross_entropy(scores, torch.arange(WAYS).repeat_interleave(QUERIES))


def main(run: Run) -> None:
    episodes = Episodes(torch.rand(64, 20, 1, 28, 28))
    stay = {"num_workers": 2, "persistent_workers": run.fixed}  # cause
    run.fit(Prototypes(), DataLoader(episodes, batch_size=None, **stay))  # cause
