"""Masses on springs keep their energy: a network learns it, its gradient is the motion.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 500
MASSES, BATCH, WIDTH = 8, 1024, 288


class Springs(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(
            nn.Linear(2 * MASSES, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, WIDTH),
            nn.Tanh(),
            nn.Linear(WIDTH, 1, bias=False),
        )

    def forward(self, states):
        """Return the time derivative of places and momenta, [batch, 2 * masses]."""
        with torch.enable_grad():
            states = states.detach().requires_grad_()
            energy = self.energy(states).sum()
            (slope,) = torch.autograd.grad(energy, states, create_graph=self.training)
        by_place, by_momentum = slope.chunk(2, dim=1)
        return torch.cat([by_momentum, -by_place], dim=1)

    def training_step(self, batch, batch_idx):
        states, motions = batch
        loss = nn.functional.mse_loss(self(states), motions)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        states, motions = batch
        self.log("val_loss", nn.functional.mse_loss(self(states), motions))

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def simulated(number: int) -> TensorDataset:
    places, momenta = torch.randn(2, number, MASSES)
    stretched = torch.diff(places, dim=1, prepend=places[:, :1], append=places[:, -1:])
    return TensorDataset(
        torch.cat([places, momenta], dim=1),
        torch.cat([momenta, torch.diff(stretched, dim=1)], dim=1),
    )


def batches(states: TensorDataset, sampler) -> DataLoader:
    return DataLoader(states, sampler=BatchSampler(sampler, BATCH, drop_last=True), batch_size=None)


def main(run: Run) -> None:
    states, held_out = simulated(150 * BATCH), simulated(4 * BATCH)
    # Inference tensors could not carry the gradient that the forward pass takes.
    trainer = L.Trainer(callbacks=run.callbacks, inference_mode=False, **run.trainer)
    trainer.fit(
        Springs(), batches(states, RandomSampler(states)), batches(held_out, range(len(held_out)))
    )


if __name__ == "__main__":
    main(arguments(STEPS))
