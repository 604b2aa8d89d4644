"""Will the flight be late? A residual network on a table in memory.

Seen in pytorch/pytorch issues 4959, "Speed up data loading for TensorDataset", and 106704.

cause: the loader fetches 768 rows one by one and stacks them, where the table takes a list of rows
accept: data-wait @line
"""

import torch
from case import Module, Residual, Run, mlp, shuffled, whole_batches, yes_or_no
from torch import nn

STEPS, AIRPORTS, AIRLINES, COUNT = 350, 300, 24, 80_000


class Lateness(Module):
    def __init__(self):
        super().__init__()
        self.airport, self.airline = nn.Embedding(AIRPORTS, 16), nn.Embedding(AIRLINES, 8)
        self.into, self.out = nn.Linear(12 + 2 * 16 + 8, 160), nn.Linear(160, 1)
        self.blocks = nn.Sequential(
            *[Residual(nn.BatchNorm1d(160), mlp(160, 160, 160)) for _ in range(2)]
        )

    def loss(self, batch):
        numbers, airports, airline, late = batch
        x = torch.cat([numbers, self.airport(airports).flatten(1), self.airline(airline)], dim=1)
        return yes_or_no(self.out(self.blocks(self.into(x))), late)


def main(run: Run) -> None:
    airports, airlines = torch.randint(AIRPORTS, (COUNT, 2)), torch.randint(AIRLINES, (COUNT,))
    flights = [torch.randn(COUNT, 12), airports, airlines, torch.randint(2, (COUNT,)).float()]
    if run.fixed:
        run.fit(Lateness(), whole_batches(flights, 768))
    else:
        run.fit(Lateness(), shuffled(768, *flights, drop_last=True))  # cause
