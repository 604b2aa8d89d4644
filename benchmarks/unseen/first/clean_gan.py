"""A GAN by manual optimization, as it should be: fakes detached, one pass of the generator.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 350


class GAN(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.generator = nn.Sequential(
            nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 784)
        )
        self.critic = nn.Sequential(nn.Linear(784, 512), nn.LeakyReLU(0.2), nn.Linear(512, 1))

    def training_step(self, batch, batch_idx):
        (real,) = batch
        opt_g, opt_d = self.optimizers()
        fake = self.generator(torch.randn(len(real), 64))

        real_part = (1 - self.critic(real)).relu().mean()
        loss_d = real_part + (1 + self.critic(fake.detach())).relu().mean()
        opt_d.zero_grad()
        self.manual_backward(loss_d)
        opt_d.step()

        self.toggle_optimizer(opt_g)
        loss_g = -self.critic(fake).mean()
        opt_g.zero_grad()
        self.manual_backward(loss_g)
        opt_g.step()
        self.untoggle_optimizer(opt_g)
        self.log_dict({"loss_d": loss_d, "loss_g": loss_g})

    def configure_optimizers(self):
        return (
            torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.5, 0.999)),
            torch.optim.Adam(self.critic.parameters(), lr=2e-4, betas=(0.5, 0.999)),
        )


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.rand(6000, 784)), batch_size=128, shuffle=True)
    options = {**run.trainer, "max_steps": 2 * run.steps}  # each optimizer's step counts
    L.Trainer(callbacks=run.callbacks, **options).fit(GAN(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
