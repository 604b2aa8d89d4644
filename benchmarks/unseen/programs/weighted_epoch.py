"""Rare whales: calls from years of hydrophone clips, the rare species drawn more often.

Seen in pytorch/pytorch issue 32221, "WeightedRandomSampler with replacement=False incredibly slow".

cause: each epoch of 40 batches draws without replacement from the weights of three million clips
accept: slow-epoch-start data-wait @line
"""

import torch
from case import Run, Supervised, mlp
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

STEPS, CLIPS, BANDS, SPECIES, BATCH, EPOCH = 480, 3_000_000, 32, 16, 32, 40 * 32


class BySpecies:
    """Draws a species, then one of its clips: what weights by species come to."""

    def __init__(self, species):
        self.clips = [torch.nonzero(species == s).squeeze(1) for s in range(SPECIES)]

    def __len__(self):
        return EPOCH

    def __iter__(self):
        drawn = torch.randint(SPECIES, (EPOCH,)).bincount(minlength=SPECIES).tolist()
        pairs = zip(self.clips, drawn, strict=True)
        picked = torch.cat([clips[torch.randint(len(clips), (n,))] for clips, n in pairs])
        yield from picked[torch.randperm(len(picked))].tolist()


class Scaled(nn.Module):
    def forward(self, clips):
        return clips / 255


def main(run: Run) -> None:
    species = (torch.rand(CLIPS).pow(3) * SPECIES).long()
    clips = TensorDataset(torch.randint(256, (CLIPS, BANDS), dtype=torch.uint8), species)
    if run.fixed:
        sampler = BySpecies(species)
    else:
        weights = 1 / species.bincount(minlength=SPECIES)[species]
        sampler = WeightedRandomSampler(weights, EPOCH, replacement=False)  # cause
    data = DataLoader(clips, batch_size=BATCH, sampler=sampler)  # cause
    model = Supervised(Scaled(), mlp(BANDS, 1024, 640, SPECIES, act=nn.GELU))
    run.fit(model, data, enable_checkpointing=False)
