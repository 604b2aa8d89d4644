"""Which gesture did the event camera see? Spiking neurons with a surrogate gradient, clean.

The loop over time is needed, for each moment's potential depends on the last one's spikes; what
does not depend on them (the weighing of the input) is done for all moments at once before it.
Events are kept as bytes; a batch of them becomes numbers when it is used.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 140
CLIPS, MOMENTS, PIXELS, NEURONS, GESTURES, BATCH = 9600, 16, 256, 512, 8, 64


class Spike(torch.autograd.Function):
    """One where the potential is above its threshold; its gradient is that of a soft step."""

    @staticmethod
    def forward(ctx, above):
        ctx.save_for_backward(above)
        return (above > 0).to(above.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (above,) = ctx.saved_tensors
        return gradient / (1 + 4 * above.abs()).square()


class Gestures(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.seen = nn.Linear(PIXELS, NEURONS)
        self.again = nn.Linear(NEURONS, NEURONS, bias=False)
        nn.init.normal_(self.again.weight, std=0.3 / NEURONS**0.5)
        self.out = nn.Linear(NEURONS, GESTURES)

    def forward(self, events):
        driven = self.seen(events)
        potential = spikes = torch.zeros_like(driven[0])
        fired = []
        for drive in driven.unbind(0):
            rested = torch.where(spikes > 0, 0.0, 0.9 * potential)
            potential = rested + torch.addmm(drive, spikes, self.again.weight.t())
            spikes = Spike.apply(potential - 1)
            fired.append(spikes)
        return self.out(torch.stack(fired).mean(dim=0))

    def training_step(self, batch, batch_idx):
        events, gestures = batch
        loss = nn.functional.cross_entropy(self(events.transpose(0, 1).float()), gestures)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    gestures = torch.randint(0, GESTURES, (CLIPS,))
    likely = torch.rand(GESTURES, MOMENTS, PIXELS).pow(3)
    clips = TensorDataset(torch.bernoulli(likely[gestures]).to(torch.uint8), gestures)
    batches = BatchSampler(RandomSampler(clips), BATCH, drop_last=True)
    data = DataLoader(clips, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, gradient_clip_val=1.0, **run.trainer)
    trainer.fit(Gestures(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
