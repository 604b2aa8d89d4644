"""Who will click on the advert? Bags of many sparse features, two optimizers by hand, clean.

The table's gradient is sparse, and SparseAdam moves but the rows that were looked up; all else is
moved by a fused Adam, so optimization is manual. Whole batches are taken from tensors with one
index each: the sampler yields lists, and the loader batches nothing itself.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 300  # of both optimizers, so that 150 batches are seen
FEATURES, ADVERTS, PRESENT, BATCH, WIDTH = 200_000, 40_000, 30, 256, 48


class Adverts(Dataset):
    def __init__(self) -> None:
        self.features = torch.randint(0, FEATURES, (ADVERTS, PRESENT))
        self.strengths = torch.rand(ADVERTS, PRESENT)
        likes = torch.randn(FEATURES)
        self.clicked = ((likes[self.features] * self.strengths).sum(dim=1) > 0).float()

    def __len__(self):
        return ADVERTS

    def __getitem__(self, batch):
        return self.features[batch], self.strengths[batch], self.clicked[batch]


class Clicks(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.table = nn.EmbeddingBag(FEATURES, WIDTH, mode="sum", sparse=True)
        self.net = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 512),
            nn.ReLU(),
            nn.Linear(512, 512),
            nn.ReLU(),
            nn.Linear(512, 1),
        )

    def training_step(self, batch, batch_idx):
        features, strengths, clicked = batch
        read = self.table(features, per_sample_weights=strengths)
        loss = nn.functional.binary_cross_entropy_with_logits(self.net(read).squeeze(1), clicked)
        optimizers = self.optimizers()
        for optimizer in optimizers:
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in optimizers:
            optimizer.step()
        self.log("train_loss", loss)

    def configure_optimizers(self):
        rows = torch.optim.SparseAdam(self.table.parameters(), lr=2e-3)
        return rows, torch.optim.Adam(self.net.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    adverts = Adverts()
    batches = BatchSampler(RandomSampler(adverts), BATCH, drop_last=True)
    data = DataLoader(adverts, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Clicks(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
