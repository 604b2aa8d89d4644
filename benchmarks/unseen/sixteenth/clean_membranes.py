"""How does a drum's skin swing? A network that has to fulfil the wave equation, clean.

Second derivatives by the places are in the loss, so gradients are taken three times over and the
graph of the first ones is kept (create_graph): no other way leads to them. All second derivatives
of a coordinate come from one call, and new places are drawn for each step at once.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 180
PLACES, BATCH, WIDTH = 120000, 512, 96


class Skin(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(3, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, 1),
        )

    def training_step(self, batch, batch_idx):
        (places,) = batch
        places = places.requires_grad_(True)
        height = self.net(places)
        slopes = torch.autograd.grad(height.sum(), places, create_graph=True)[0]
        second = [
            torch.autograd.grad(slope.sum(), places, create_graph=True)[0][:, axis]
            for axis, slope in enumerate(slopes.unbind(dim=1))
        ]
        wave = second[2] - second[0] - second[1]
        still = torch.cat([places[:, :2].detach(), torch.zeros_like(height)], dim=1)
        shape = torch.sin(torch.pi * still[:, :1]) * torch.sin(torch.pi * still[:, 1:2])
        loss = wave.square().mean() + 10 * (self.net(still) - shape).square().mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    places = TensorDataset(torch.rand(PLACES, 3))
    batches = BatchSampler(RandomSampler(places), BATCH, drop_last=True)
    data = DataLoader(places, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Skin(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
