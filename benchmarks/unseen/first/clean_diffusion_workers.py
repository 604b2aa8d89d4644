"""A diffusion toy whose images are decoded by one worker process, and an EMA by foreach.

accept: none
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 250


class Stored(Dataset):
    """Images as bytes, scaled when they are asked for: cheap, and done beside the training."""

    def __init__(self, count: int) -> None:
        self.pixels = np.random.default_rng(0).integers(0, 255, (count, 768), dtype=np.uint8)

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> np.ndarray:
        return self.pixels[index].astype(np.float32) / 127.5 - 1.0


class EMA(L.Callback):
    def on_fit_start(self, trainer, pl_module):
        self.shadow = [p.detach().clone() for p in pl_module.parameters()]

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx % 10 == 0:
            torch._foreach_lerp_(self.shadow, [p.detach() for p in pl_module.parameters()], 0.01)


class Diffusion(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("alpha", (1 - torch.linspace(1e-4, 0.02, 200)).cumprod(0))
        self.net = nn.Sequential(
            nn.Linear(769, 640), nn.SiLU(), nn.Linear(640, 640), nn.SiLU(), nn.Linear(640, 768)
        )

    def training_step(self, batch, batch_idx):
        t = torch.randint(200, (len(batch), 1))
        noise, alpha = torch.randn_like(batch), self.alpha[t]
        noisy = alpha.sqrt() * batch + (1 - alpha).sqrt() * noise
        loss = nn.functional.mse_loss(self.net(torch.cat([noisy, t / 200], 1)), noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Stored(40_000), batch_size=256, shuffle=True, num_workers=1,
                      persistent_workers=True)  # fmt: skip
    L.Trainer(callbacks=[EMA(), *run.callbacks], **run.trainer).fit(Diffusion(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
