"""Leaves sorted into species by a small MLP-Mixer, trained with Shampoo.

seen in: kozistr/pytorch_optimizer issue 100, "Updated Shampoo uber slow performance" (a Mixer in
Lightning), and pull request 129, which then set how seldom the preconditioners are computed

cause: the optimizer takes the inverse roots of all preconditioners (an eigendecomposition of each)
    at every step, though these sums over all steps hardly move
right: says that the optimizer's eigendecompositions (inverse roots) take the time, or points at the
    marked line first; its change computes them every some steps, or takes another optimizer
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 300
BATCH, SIDE, PATCH, SPECIES = 48, 32, 4, 20
PATCHES, CHANNELS = (SIDE // PATCH) ** 2, 96


class Shampoo(torch.optim.Optimizer):
    """Preconditioned stochastic tensor optimization, one factor for each axis of a parameter."""

    def __init__(self, parameters, lr=1e-2, momentum=0.9, epsilon=1e-4, every=1):
        super().__init__(
            parameters, {"lr": lr, "momentum": momentum, "epsilon": epsilon, "every": every}
        )

    @torch.no_grad()
    def step(self, closure=None):
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, parameter.grad, group)
        return loss

    def _update(self, parameter, gradient, group):
        state = self.state[parameter]
        if not state:
            sums = [group["epsilon"] * torch.eye(size) for size in gradient.shape]
            state.update(step=0, sums=sums, roots=list(sums), velocity=torch.zeros_like(gradient))
        for axis in range(gradient.ndim):
            flat = gradient.movedim(axis, 0).reshape(len(state["sums"][axis]), -1)
            state["sums"][axis] += flat @ flat.mT
        for axis, total in enumerate(state["sums"]):
            if state["step"] < 10 or state["step"] % group["every"] == 0:
                state["roots"][axis] = inverse_root(total, 2 * gradient.ndim)  # cause
            gradient = torch.tensordot(state["roots"][axis], gradient, ([1], [axis])).movedim(
                0, axis
            )
        state["step"] += 1
        state["velocity"].mul_(group["momentum"]).add_(gradient)
        parameter.sub_(state["velocity"], alpha=group["lr"])


def inverse_root(matrix, order):
    values, vectors = torch.linalg.eigh(matrix)  # cause
    return vectors * values.clamp(min=1e-6).pow(-1 / order) @ vectors.mT


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(CHANNELS) for _ in range(2))
        self.places = nn.Sequential(
            nn.Linear(PATCHES, PATCHES), nn.GELU(), nn.Linear(PATCHES, PATCHES)
        )
        self.channels = nn.Sequential(
            nn.Linear(CHANNELS, 2 * CHANNELS), nn.GELU(), nn.Linear(2 * CHANNELS, CHANNELS)
        )

    def forward(self, patches):
        patches = patches + self.places(self.norms[0](patches).mT).mT
        return patches + self.channels(self.norms[1](patches))


class Leaves(L.LightningModule):
    def __init__(self, every: int) -> None:
        super().__init__()
        self.every = every
        self.patches = nn.Conv2d(3, CHANNELS, PATCH, stride=PATCH)
        self.mixing = nn.Sequential(Mixing(), Mixing(), nn.LayerNorm(CHANNELS))
        self.head = nn.Linear(CHANNELS, SPECIES)

    def training_step(self, batch, batch_idx):
        photos, species = batch
        patches = self.mixing(self.patches(photos).flatten(2).mT)
        loss = nn.functional.cross_entropy(self.head(patches.mean(dim=1)), species)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return Shampoo(self.parameters(), every=self.every)


def main(run: Run) -> None:
    photos = TensorDataset(torch.rand(2400, 3, SIDE, SIDE), torch.randint(SPECIES, (2400,)))
    data = DataLoader(photos, batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Leaves(25 if run.fixed else 1), data)


if __name__ == "__main__":
    main(arguments(STEPS))
