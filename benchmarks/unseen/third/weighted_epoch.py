"""Rare whales: calls from years of hydrophone clips, the rare species drawn more often.

seen in: pytorch/pytorch issue 32221, "WeightedRandomSampler with replacement=False incredibly slow"

cause: each epoch of 40 batches draws without replacement from the weights of three million clips
accept: slow-epoch-start data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset, WeightedRandomSampler

STEPS = 480
CLIPS, BANDS, SPECIES, BATCH, EPOCH = 3_000_000, 32, 16, 32, 40


class BySpecies(Sampler):
    """Draws a species, then one of its clips: what weights by species come to."""

    def __init__(self, species: torch.Tensor) -> None:
        self.clips = [torch.nonzero(species == s).squeeze(1) for s in range(SPECIES)]

    def __len__(self) -> int:
        return BATCH * EPOCH

    def __iter__(self):
        drawn = torch.randint(SPECIES, (len(self),)).bincount(minlength=SPECIES).tolist()
        picked = [
            clips[torch.randint(len(clips), (count,))]
            for clips, count in zip(self.clips, drawn, strict=True)
        ]
        both = torch.cat(picked)
        yield from both[torch.randperm(len(both))].tolist()


class Whales(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(BANDS, 1024), nn.GELU(), nn.Linear(1024, 640), nn.GELU())
        self.head = nn.Linear(640, SPECIES)

    def training_step(self, batch, batch_idx):
        clips, species = batch
        loss = nn.functional.cross_entropy(self.head(self.net(clips / 255)), species)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    species = (torch.rand(CLIPS).pow(3) * SPECIES).long()
    clips = TensorDataset(torch.randint(256, (CLIPS, BANDS), dtype=torch.uint8), species)
    if run.fixed:
        sampler = BySpecies(species)
    else:
        weights = 1 / species.bincount(minlength=SPECIES)[species]
        sampler = WeightedRandomSampler(weights, BATCH * EPOCH, replacement=False)  # cause
    data = DataLoader(clips, batch_size=BATCH, sampler=sampler)  # cause
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Whales(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
