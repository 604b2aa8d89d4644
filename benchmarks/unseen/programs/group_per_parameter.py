"""A deep narrow mixer for gestures, deeper layers learning faster.

Seen in roboflow/rf-detr pull request 1409, "group optimizer parameters by their hyperparameters".

cause: each parameter is a group of the optimizer of its own, so it updates them one at a time
accept: unfused-optimizer host-bound small-kernels @line
"""

from collections import defaultdict

import torch
from case import Module, Run, shuffled
from torch import nn

STEPS, FRAMES, WIDTH, DEPTH, GESTURES = 250, 24, 48, 16, 25


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.time, self.wide = nn.Linear(FRAMES, FRAMES), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.time(self.norm1(x).mT).mT
        return x + self.wide(self.norm2(x)).relu()


class Gestures(Module):
    def __init__(self, few_groups):
        super().__init__()
        self.few_groups = few_groups
        self.into, self.head = nn.Linear(21, WIDTH), nn.Linear(WIDTH, GESTURES)
        self.mixers = nn.Sequential(*[Mixer() for _ in range(DEPTH)])

    def loss(self, batch):
        scores = self.head(self.mixers(self.into(batch[0])).mean(1))
        return nn.functional.cross_entropy(scores, batch[1])

    def setting(self, name, parameter):
        """Return learning rate and decay."""
        depth = int(name.split(".")[1]) // 4 if name.startswith("mixers") else 0
        return 1e-3 * 0.7 ** (DEPTH // 4 - depth), 0.0 if parameter.ndim == 1 else 0.01

    def configure_optimizers(self):
        together = defaultdict(list)
        for name, parameter in self.named_parameters():
            own = None if self.few_groups else name  # cause
            together[(own, *self.setting(name, parameter))].append(parameter)  # cause
        groups = [{"params": p, "lr": r, "weight_decay": d} for (_, r, d), p in together.items()]
        return torch.optim.AdamW(groups, fused=True)  # cause


def main(run: Run) -> None:
    moves = torch.randn(1600, FRAMES, 21), torch.randint(GESTURES, (1600,))
    run.fit(Gestures(few_groups=run.fixed), shuffled(16, *moves))
