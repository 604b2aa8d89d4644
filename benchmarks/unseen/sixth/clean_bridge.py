"""How far does a bridge bend under its load? Messages along one mesh that all loads share.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
LONG, HIGH, WIDTH = 24, 5, 48


def mesh():
    places = torch.cartesian_prod(torch.arange(LONG), torch.arange(HIGH))
    apart = (places[:, None] - places).abs().amax(dim=2)
    return places / LONG, (apart == 1).nonzero().T


class Bridge(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        places, beams = mesh()
        self.register_buffer("places", places)
        self.register_buffer("beams", beams)
        self.first = nn.Linear(4, WIDTH)
        self.messages = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 2)

    def training_step(self, batch, batch_idx):
        loads, bent = batch
        left, right = self.beams
        states = self.first(torch.cat([loads, self.places.expand(len(loads), -1, -1)], dim=2))
        for message in self.messages:
            ends = torch.cat([states[:, left], states[:, right]], dim=2)
            sent = message(ends).relu()
            states = states + torch.zeros_like(states).index_add(1, right, sent)
        loss = nn.functional.mse_loss(self.head(states), bent)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
        return [optimizer], [schedule]


def main(run: Run) -> None:
    nodes = LONG * HIGH
    loads = TensorDataset(torch.randn(600, nodes, 2), torch.randn(600, nodes, 2))
    data = DataLoader(loads, batch_size=8, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Bridge(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
