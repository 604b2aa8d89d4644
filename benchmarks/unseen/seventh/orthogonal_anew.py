"""Which gesture does the depth camera see? An orthogonal recurrent network on frames of a CNN.

seen in: lezcano/geotorch issue 34, "redundant computations?", and pytorch/pytorch issue 7313,
which advises a cache around the loop of an RNN whose weight is parametrized

cause: the recurrent weight is parametrized as orthogonal, and each frame of the loop asks for it
    and computes its matrix exponential again, though it changes once a step
right: says that the parametrization (matrix exponential) of the recurrent weight is computed again
    for every frame, or points at a marked line first; its change is parametrize.cached() around the
    loop, or to read the weight once before it
"""

from contextlib import nullcontext

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
BATCH, FRAMES, SIDE, WIDTH, GESTURES = 16, 12, 32, 64, 11


class Gestures(L.LightningModule):
    def __init__(self, cached: bool) -> None:
        super().__init__()
        self.cached = cached
        self.frames = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 48, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 16, WIDTH),
        )
        self.recurrent = orthogonal(nn.Linear(WIDTH, WIDTH, bias=False))
        self.threshold = nn.Parameter(torch.zeros(WIDTH))
        self.head = nn.Linear(WIDTH, GESTURES)

    def forward(self, films):
        seen = self.frames(films.flatten(0, 1)).unflatten(0, films.shape[:2])
        state = seen.new_zeros(len(films), WIDTH)
        with parametrize.cached() if self.cached else nullcontext():
            for frame in seen.unbind(dim=1):
                mixed = frame + self.recurrent(state)  # cause
                state = mixed.sign() * (mixed.abs() + self.threshold).relu()
        return self.head(state)

    def training_step(self, batch, batch_idx):
        films, gestures = batch
        loss = nn.functional.cross_entropy(self(films), gestures)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def main(run: Run) -> None:
    films = TensorDataset(torch.rand(1600, FRAMES, 1, SIDE, SIDE), torch.randint(GESTURES, (1600,)))
    data = DataLoader(films, batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Gestures(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
