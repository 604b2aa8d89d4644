"""A diffusion model on 16 x 16 patches, its schedule and noise written with numpy.

cause: the noise of each batch is drawn by numpy in double precision and converted
accept: host-bound @line
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 550
TIMES = 200


class Diffusion(L.LightningModule):
    def __init__(self, torch_noise: bool) -> None:
        super().__init__()
        self.torch_noise = torch_noise
        self.alpha = np.cumprod(1.0 - np.linspace(1e-4, 0.02, TIMES))
        self.register_buffer("alpha_t", torch.tensor(self.alpha, dtype=torch.float32))
        self.net = nn.Sequential(
            nn.Linear(768 + 1, 224), nn.SiLU(), nn.Linear(224, 224), nn.SiLU(), nn.Linear(224, 768)
        )

    def noised(self, x):
        if self.torch_noise:
            t = torch.randint(TIMES, (len(x), 1))
            noise, alpha = torch.randn_like(x), self.alpha_t[t]
            return alpha.sqrt() * x + (1 - alpha).sqrt() * noise, noise, t / TIMES
        t = np.random.randint(TIMES, size=(len(x), 1))
        noise = np.random.normal(size=x.shape)  # cause
        alpha = self.alpha[t]
        noisy = np.sqrt(alpha) * x.numpy() + np.sqrt(1 - alpha) * noise  # cause
        numbers = noisy, noise, t / TIMES
        return [torch.tensor(array).float() for array in numbers]  # cause

    def training_step(self, batch, batch_idx):
        (x,) = batch
        noisy, noise, t = self.noised(x)  # cause
        loss = nn.functional.mse_loss(self.net(torch.cat([noisy, t], 1)), noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.randn(4096, 768)), batch_size=256, shuffle=True)
    model = Diffusion(torch_noise=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
