"""A deep narrow mixer for gestures, deeper layers learning faster.

seen in: roboflow/rf-detr pull request 1409, "group optimizer parameters by their hyperparameters"

cause: each parameter is a group of the optimizer of its own, so it updates them one at a time
accept: unfused-optimizer host-bound small-kernels @line
"""

from collections import defaultdict

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 250
FRAMES, WIDTH, DEPTH, GESTURES = 24, 48, 16, 25


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.time, self.wide = nn.Linear(FRAMES, FRAMES), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        x = x + self.time(self.norm1(x).mT).mT
        return x + self.wide(self.norm2(x)).relu()


class Gestures(L.LightningModule):
    def __init__(self, few_groups: bool) -> None:
        super().__init__()
        self.few_groups = few_groups
        self.into = nn.Linear(21, WIDTH)
        self.mixers = nn.Sequential(*[Mixer() for _ in range(DEPTH)])
        self.head = nn.Linear(WIDTH, GESTURES)

    def training_step(self, batch, batch_idx):
        moves, gestures = batch
        scores = self.head(self.mixers(self.into(moves)).mean(1))
        loss = nn.functional.cross_entropy(scores, gestures)
        self.log("train_loss", loss)
        return loss

    def setting(self, name: str, parameter) -> tuple[float, float]:
        """Return learning rate and decay."""
        depth = int(name.split(".")[1]) // 4 if name.startswith("mixers") else 0
        return 1e-3 * 0.7 ** (DEPTH // 4 - depth), 0.0 if parameter.ndim == 1 else 0.01

    def groups(self):
        if not self.few_groups:
            for name, parameter in self.named_parameters():
                rate, decay = self.setting(name, parameter)
                yield {"params": [parameter], "lr": rate, "weight_decay": decay}  # cause
            return
        together = defaultdict(list)
        for name, parameter in self.named_parameters():
            together[self.setting(name, parameter)].append(parameter)
        for (rate, decay), parameters in together.items():
            yield {"params": parameters, "lr": rate, "weight_decay": decay}

    def configure_optimizers(self):
        return torch.optim.AdamW(self.groups(), fused=True)  # cause


def main(run: Run) -> None:
    moves = TensorDataset(torch.randn(1600, FRAMES, 21), torch.randint(GESTURES, (1600,)))
    data = DataLoader(moves, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Gestures(few_groups=run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
