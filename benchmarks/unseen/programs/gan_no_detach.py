"""A GAN with manual optimization, as pieced together from two tutorials.

cause: fakes are not detached for the discriminator: its backward runs through the generator too,
    and retain_graph keeps all of it; then the generator's pass is made a second time
accept: retained-graph unused-gradients @line
"""

import torch
from case import Module, Run, mlp, shuffled
from torch import nn

STEPS, LATENT, PIXELS = 420, 64, 784


def leaky():
    return nn.LeakyReLU(0.2)


class GAN(Module):
    def __init__(self, detach):
        super().__init__()
        self.automatic_optimization = False
        self.detach = detach
        self.generator = mlp(LATENT, 512, 512, PIXELS, act=leaky)
        self.critic = mlp(PIXELS, 256, 1, act=leaky)

    def judged(self, images, real):
        scores = self.critic(images)
        target = torch.full_like(scores, float(real))
        return nn.functional.binary_cross_entropy_with_logits(scores, target)

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        fake = self.generator(torch.randn(len(real), LATENT))
        shown = fake.detach() if self.detach else fake
        loss_d = self.judged(real, True) + self.judged(shown, False)
        opt_d.zero_grad()
        self.manual_backward(loss_d, retain_graph=not self.detach)  # cause
        opt_d.step()
        if not self.detach:
            fake = self.generator(torch.randn(len(real), LATENT))  # cause
        loss_g = self.judged(fake, True)
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()
        self.log_dict({"loss_d": loss_d, "loss_g": loss_g})

    def configure_optimizers(self):
        nets = self.generator, self.critic
        return [torch.optim.Adam(net.parameters(), lr=2e-4) for net in nets]


def main(run: Run) -> None:
    both = 2 * run.steps  # each optimizer's step counts
    run.fit(GAN(detach=run.fixed), shuffled(96, torch.rand(4096, PIXELS)), max_steps=both)
