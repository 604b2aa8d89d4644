"""Damaged parcels: a new head is trained on top of an encoder that stays as it is.

report: pytorch/pytorch issue 120495, "Caching the Stable FeatureMaps" ("store the feature map of each
    input only once, instead of doing forward pass in each epoch in vain"), and NVIDIA/Isaac-GR00T
    issue 483 (the frozen backbone's pass is a "massive bottleneck (~5s/step)")
cause: the encoder does not learn and its input does not change, but all pictures go through it in
    every epoch again
right: most of a step is the forward of the encoder (a marked line), which is frozen (no gradient, its
    parameters take no part); the change is to work its features out once and train the head on them.
    no_grad is there already, and loading, backward and optimizer are small
The mended form trains the head alike.
"""

import torch
from case import Module, Run, convs, mlp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS, PARCELS, SIDE, KINDS = 240, 480, 48, 6


class Parcels(Module):
    def __init__(self, pictures, kinds, fixed):
        super().__init__()
        self.data, self.fixed = (pictures, kinds), fixed
        shapes = (3, 24, 5, 2), (24, 48, 3, 1), (48, 96, 3, 2), (96, 128, 3, 1)
        self.encoder = convs(*shapes, norm=True).eval().requires_grad_(False)
        self.head = mlp(128, 256, KINDS)

    @torch.no_grad()
    def features(self, pictures):
        return self.encoder(pictures)  # cause

    def train_dataloader(self):
        pictures, kinds = self.data
        if self.fixed:
            pictures = torch.cat([self.features(part) for part in pictures.split(32)])
        return DataLoader(TensorDataset(pictures, kinds), batch_size=32, shuffle=True)

    def loss(self, batch):
        inputs, kinds = batch
        found = inputs if self.fixed else self.features(inputs)  # cause
        return nn.functional.cross_entropy(self.head(found), kinds)

    def on_train_epoch_start(self):
        self.encoder.eval()


def main(run: Run) -> None:
    pictures, kinds = torch.rand(PARCELS, 3, SIDE, SIDE), torch.randint(KINDS, (PARCELS,))
    run.fit(Parcels(pictures, kinds, run.fixed))
