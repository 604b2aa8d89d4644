"""Gestures before a camera of events: layers of leaky integrators, with a gradient of our own.

seen in: a guise of: Python loop of small ops

cause: the leaky sum goes forward in one product of matrices, but its backward (a Function of our
    own) goes back through time step by step, in Python
right: says that a Python loop of many small operations is the cost (in the backward of the
    Function), or points at a marked line first; its change does it in one operation, by the same
    matrix
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 250  # of two batches each
TIMES, PIXELS, WIDTH, GESTURES = 128, 64, 24, 11


class LeakySum(torch.autograd.Function):
    """y[t] = x[t] + decay * y[t - 1], for (batch, times, width); each neuron has its own decay."""

    by_matrix = False

    @staticmethod
    def forward(ctx, x, decay, powers):
        ctx.save_for_backward(decay, powers)
        return torch.einsum("wts,bsw->btw", powers, x)

    @staticmethod
    def backward(ctx, slopes):
        decay, powers = ctx.saved_tensors
        if LeakySum.by_matrix:
            return torch.einsum("wts,btw->bsw", powers, slopes), None, None
        carried, back = torch.zeros_like(slopes[:, 0]), torch.zeros_like(slopes)
        for time in reversed(range(TIMES)):  # cause
            carried = slopes[:, time] + decay * carried  # cause
            back[:, time] = carried  # cause
        return back, None, None


class Neurons(nn.Module):
    """A current that leaks, into a potential that leaks, into a rate of spikes."""

    def __init__(self, read: int) -> None:
        super().__init__()
        self.linear = nn.Linear(read, WIDTH)
        for name, longest in (("current", 0.9), ("potential", 0.98)):
            decay = torch.linspace(0.5, longest, WIDTH)
            apart = torch.arange(TIMES)[:, None] - torch.arange(TIMES)
            powers = torch.where(apart >= 0, decay[:, None, None] ** apart.clamp(min=0), 0.0)
            self.register_buffer(name, decay)
            self.register_buffer(f"{name}_powers", powers)

    def forward(self, events):
        current = LeakySum.apply(self.linear(events), self.current, self.current_powers)
        potential = LeakySum.apply(current, self.potential, self.potential_powers)
        return torch.sigmoid(4 * (potential - 1))


class Events(Dataset):
    def __init__(self, count: int) -> None:
        self.events = torch.randint(2, (count, TIMES, PIXELS), dtype=torch.uint8)
        self.gestures = torch.randint(GESTURES, (count,))

    def __len__(self) -> int:
        return len(self.gestures)

    def __getitems__(self, indices):
        return self.events[indices], self.gestures[indices]


class Gestures(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.neurons = nn.Sequential(Neurons(PIXELS), *(Neurons(WIDTH) for _ in range(5)))
        self.head = nn.Linear(WIDTH, GESTURES)

    def training_step(self, batch, batch_idx):
        events, gestures = batch
        spikes = self.neurons(events.float())
        loss = nn.functional.cross_entropy(self.head(spikes.mean(dim=1)), gestures)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    LeakySum.by_matrix = run.fixed
    data = DataLoader(Events(1600), batch_size=4, shuffle=True, collate_fn=lambda batch: batch)
    trainer = L.Trainer(callbacks=run.callbacks, accumulate_grad_batches=2, **run.trainer)
    trainer.fit(Gestures(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
