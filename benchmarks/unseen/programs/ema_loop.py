"""A deep residual denoiser with an exponential moving average of its weights.

cause: the EMA callback copies state_dict and blends it tensor by tensor, out of place, every step
accept: slow-callback
"""

import copy

import lightning as L
import torch
from case import Module, Residual, Run, mlp, shuffled
from torch import nn

STEPS, DECAY = 380, 0.999


class EMA(L.Callback):
    shadow = None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        weights = copy.deepcopy(pl_module.state_dict())  # cause
        if self.shadow is None:
            self.shadow = weights
        for name, weight in weights.items():  # cause
            self.shadow[name] = DECAY * self.shadow[name] + (1 - DECAY) * weight  # cause


class FastEMA(EMA):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        weights = [parameter.detach() for parameter in pl_module.parameters()]
        if self.shadow is None:
            self.shadow = [weight.clone() for weight in weights]
        torch._foreach_lerp_(self.shadow, weights, 1 - DECAY)


class Denoiser(Module):
    fused = True

    def __init__(self):
        super().__init__()
        self.time = nn.Linear(1, 192)
        blocks = (Residual(nn.LayerNorm(192), mlp(192, 192, 192, act=nn.SiLU)) for _ in range(14))
        self.blocks = nn.Sequential(*blocks)

    def loss(self, batch):
        (x,) = batch
        t, noise = torch.rand(len(x), 1), torch.randn_like(x)
        noisy = (1 - t) * x + t * noise
        return nn.functional.mse_loss(self.blocks(noisy + self.time(t)), noise)


def main(run: Run) -> None:
    ema = FastEMA() if run.fixed else EMA()
    run.fit(Denoiser(), shuffled(128, torch.randn(4096, 192)), callbacks=[ema])
