"""A GAN with manual optimization, as pieced together from two tutorials.

cause: fakes are not detached for the discriminator: its backward runs through the generator too,
    and retain_graph keeps all of it; then the generator's pass is made a second time
accept: retained-graph @line
"""

from itertools import pairwise

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 420
LATENT, PIXELS = 64, 784


def mlp(*sizes: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class GAN(L.LightningModule):
    def __init__(self, detach: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.detach = detach
        self.generator = mlp(LATENT, 512, 512, PIXELS)
        self.critic = mlp(PIXELS, 256, 1)

    def loss(self, images, real: bool):
        scores = self.critic(images)
        target = torch.full_like(scores, float(real))
        return nn.functional.binary_cross_entropy_with_logits(scores, target)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        fake = self.generator(torch.randn(len(real), LATENT))
        shown = fake.detach() if self.detach else fake
        loss_d = self.loss(real, True) + self.loss(shown, False)
        opt_d.zero_grad()
        self.manual_backward(loss_d, retain_graph=not self.detach)  # cause
        opt_d.step()
        if not self.detach:
            fake = self.generator(torch.randn(len(real), LATENT))  # cause
        loss_g = self.loss(fake, True)
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()
        self.log_dict({"loss_d": loss_d, "loss_g": loss_g})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.generator.parameters(), lr=2e-4),
            torch.optim.Adam(self.critic.parameters(), lr=2e-4),
        )


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(4096, PIXELS)), batch_size=96, shuffle=True)
    run_options = {**run.trainer, "max_steps": 2 * run.steps}  # each optimizer's step counts
    L.Trainer(callbacks=run.callbacks, **run_options).fit(GAN(detach=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
