"""How warm will the greenhouse be? A recurrent cell of its own, with slow and fast moods.

cause: the cell's loop takes each hour out of the projected input by its number (driven[:, hour]);
    in backward each of these makes a tensor of zeros as large as the whole input, fills one hour
    in and adds it to the others', so that the cost goes with the square of the length
right: names the indexing driven[:, hour] in the loop, or its gradient (SelectBackward, the zeros
    and additions in backward) as caused by it; its change is to part the input once with unbind
    (or split), whose gradient is put together once

Seen in https://github.com/pytorch/pytorch/issues/1788 ("what makes the backward so slow") and
https://github.com/pytorch/pytorch/issues/9701.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 120
HOUSES, HOURS, SENSORS, BATCH, WIDTH = 6000, 72, 20, 48, 96


class Moods(nn.Module):
    """A gated cell in which each unit forgets at a pace of its own."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.inward = nn.Linear(SENSORS, 2 * WIDTH)
        self.again = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.pace = nn.Parameter(torch.linspace(-3, 1, WIDTH))

    def hours(self, driven):
        if self.fixed:
            yield from driven.unbind(dim=1)
        else:
            for hour in range(driven.shape[1]):
                yield driven[:, hour]  # cause

    def forward(self, sensors):
        driven, pace = self.inward(sensors), self.pace.sigmoid()
        mood = driven.new_zeros(len(sensors), WIDTH)
        for drive in self.hours(driven):
            gate, wish = (drive + self.again(mood)).chunk(2, dim=1)
            mood = torch.lerp(mood, wish.tanh(), pace * gate.sigmoid())
        return mood


class Greenhouses(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.moods = Moods(fixed)
        self.warmth = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def training_step(self, batch, batch_idx):
        sensors, warmth = batch
        said = self.warmth(self.moods(sensors)).squeeze(1)
        loss = nn.functional.mse_loss(said, warmth)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    sensors = torch.randn(HOUSES, HOURS, SENSORS)
    late = torch.linspace(-4, 0, HOURS).exp().view(1, -1, 1)
    warmth = torch.sin((sensors[:, :, :4] * late).sum(dim=(1, 2)))
    known = TensorDataset(sensors, warmth)
    batches = BatchSampler(RandomSampler(known), BATCH, drop_last=True)
    data = DataLoader(known, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Greenhouses(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
