"""Will the flight be late? A residual network on a table in memory.

seen in: pytorch/pytorch issue 4959, "Speed up data loading for TensorDataset", and 106704

cause: the loader fetches 768 rows one by one and stacks them, where the table takes a list of rows
accept: data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 350
AIRPORTS, AIRLINES = 300, 24


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.BatchNorm1d(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)
        )

    def forward(self, x):
        return x + self.net(x)


class Lateness(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.airport, self.airline = nn.Embedding(AIRPORTS, 16), nn.Embedding(AIRLINES, 8)
        self.into = nn.Linear(12 + 2 * 16 + 8, 160)
        self.blocks = nn.Sequential(Block(160), Block(160))
        self.out = nn.Linear(160, 1)

    def training_step(self, batch, batch_idx):
        numbers, airports, airline, late = batch
        x = torch.cat([numbers, self.airport(airports).flatten(1), self.airline(airline)], dim=1)
        scores = self.out(self.blocks(self.into(x))).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, late)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    count = 80_000
    flights = TensorDataset(
        torch.randn(count, 12),
        torch.randint(AIRPORTS, (count, 2)),
        torch.randint(AIRLINES, (count,)),
        torch.randint(2, (count,)).float(),
    )
    if run.fixed:
        picks = BatchSampler(RandomSampler(flights), 768, drop_last=True)
        data = DataLoader(flights, sampler=picks, batch_size=None)
    else:
        data = DataLoader(flights, batch_size=768, shuffle=True, drop_last=True)  # cause
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Lateness(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
