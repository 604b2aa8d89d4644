"""Which shapes do crystals grow in? An energy-based model with Langevin sampling, clean.

The inner loop of a step is the method: from where chains were left, noise and the gradient of the
energy by the picture make the negatives. The weights ask for no gradient meanwhile, so that each
of its backward passes goes to the pictures alone; chains are kept in one tensor and written back.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 120
CRYSTALS, SIDE, BATCH, CHAINS, MOVES, WIDTH = 6000, 16, 48, 2000, 5, 24


class Energies(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(WIDTH, 2 * WIDTH, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(2 * WIDTH * (SIDE // 4) ** 2, 1),
        )
        self.register_buffer("chains", torch.rand(CHAINS, 1, SIDE, SIDE), persistent=False)

    def move(self, crystals):
        """Return the pictures after some Langevin moves down the energy."""
        self.energy.requires_grad_(False)
        for _ in range(MOVES):
            crystals = crystals.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.energy(crystals).sum(), crystals)
            moved = crystals.detach() - 0.5 * slope.clamp_(-0.1, 0.1)
            crystals = torch.randn_like(moved).mul_(0.01).add_(moved).clamp_(0, 1)
        self.energy.requires_grad_(True)
        return crystals

    def training_step(self, batch, batch_idx):
        (real,) = batch
        which = torch.randperm(CHAINS, device=real.device)[: len(real)]
        made = self.move(self.chains[which])
        self.chains[which] = made
        low, high = self.energy(torch.cat([real, made])).chunk(2)
        loss = (low - high).mean() + 0.1 * (low.square() + high.square()).mean()
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4, betas=(0.0, 0.999), fused=True)


def main(run: Run) -> None:
    x = torch.linspace(-1, 1, SIDE)
    sizes = 0.3 + 0.5 * torch.rand(CRYSTALS, 2, 1, 1)
    inside = (x.view(1, -1, 1).abs() / sizes[:, 0]) + (x.view(1, 1, -1).abs() / sizes[:, 1]) < 1
    data = DataLoader(
        TensorDataset(inside.float().unsqueeze(1)), batch_size=BATCH, shuffle=True, drop_last=True
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Energies(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
