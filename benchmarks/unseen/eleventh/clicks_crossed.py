"""Will the offer be clicked? A recommender in which every field meets every other one.

cause: the products of all pairs of fields are taken pair by pair, in two nested Python loops
right: many small operators from a Python loop in forward; names Crossed.forward or its loop (a
    marked line); the change takes all products in one batched matrix product
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 400
VIEWS, FIELDS, VALUES, NUMBERS, WIDTH = 40_000, 20, 500, 13, 16


class Views(Dataset):
    def __init__(self) -> None:
        self.fields = torch.randint(VALUES, (VIEWS, FIELDS)) + VALUES * torch.arange(FIELDS)
        self.numbers = torch.rand(VIEWS, NUMBERS)
        self.clicked = (torch.rand(VIEWS) < 0.2).float()

    def __len__(self):
        return VIEWS

    def __getitem__(self, indices):
        return self.fields[indices], self.numbers[indices], self.clicked[indices]


class Crossed(nn.Module):
    """Dot products between the fields' vectors, each pair once."""

    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.at_once = at_once
        left, right = torch.tril_indices(FIELDS + 1, FIELDS + 1, offset=-1)
        self.register_buffer("pairs", left * (FIELDS + 1) + right)

    def forward(self, vectors):
        if self.at_once:
            products = torch.bmm(vectors, vectors.transpose(1, 2))
            return products.flatten(1)[:, self.pairs]
        crossed = []
        for i in range(1, FIELDS + 1):
            for j in range(i):
                crossed.append((vectors[:, i] * vectors[:, j]).sum(1))  # cause
        return torch.stack(crossed, dim=1)  # cause


class Offers(L.LightningModule):
    def __init__(self, at_once: bool) -> None:
        super().__init__()
        self.fields = nn.Embedding(FIELDS * VALUES, WIDTH)
        self.numbers = nn.Sequential(nn.Linear(NUMBERS, 128), nn.ReLU(), nn.Linear(128, WIDTH))
        self.crossed = Crossed(at_once)
        self.top = nn.Sequential(
            nn.Linear(WIDTH + FIELDS * (FIELDS + 1) // 2, 384),
            nn.ReLU(),
            nn.Linear(384, 256),
            nn.ReLU(),
            nn.Linear(256, 1),
        )

    def training_step(self, batch, batch_idx):
        fields, numbers, clicked = batch
        dense = self.numbers(numbers)
        vectors = torch.cat([dense[:, None], self.fields(fields)], dim=1)
        guessed = self.top(torch.cat([dense, self.crossed(vectors)], dim=1)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(guessed, clicked)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    views = Views()
    batches = BatchSampler(RandomSampler(views), batch_size=512, drop_last=True)
    data = DataLoader(views, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Offers(at_once=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
