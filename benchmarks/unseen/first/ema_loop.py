"""A deep residual denoiser with an exponential moving average of its weights.

cause: the EMA callback copies state_dict and blends it tensor by tensor, out of place, every step
accept: slow-callback
"""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 380


class EMA(L.Callback):
    def __init__(self, decay: float = 0.999) -> None:
        self.decay = decay
        self.shadow = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        weights = copy.deepcopy(pl_module.state_dict())  # cause
        if self.shadow is None:
            self.shadow = weights
        for name, weight in weights.items():  # cause
            self.shadow[name] = self.decay * self.shadow[name] + (1 - self.decay) * weight  # cause


class FastEMA(EMA):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        weights = [parameter.detach() for parameter in pl_module.parameters()]
        if self.shadow is None:
            self.shadow = [weight.clone() for weight in weights]
        torch._foreach_lerp_(self.shadow, weights, 1 - self.decay)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


class Denoiser(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(1, 192)
        self.blocks = nn.Sequential(*[Block(192) for _ in range(14)])

    def training_step(self, batch, batch_idx):
        (x,) = batch
        t = torch.rand(len(x), 1)
        noise = torch.randn_like(x)
        noisy = (1 - t) * x + t * noise
        loss = nn.functional.mse_loss(self.blocks(noisy + self.time(t)), noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4, fused=True)


def main(run: Run) -> None:
    data = DataLoader(TensorDataset(torch.randn(4096, 192)), batch_size=128, shuffle=True)
    ema = FastEMA() if run.fixed else EMA()
    L.Trainer(callbacks=[ema, *run.callbacks], **run.trainer).fit(Denoiser(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
