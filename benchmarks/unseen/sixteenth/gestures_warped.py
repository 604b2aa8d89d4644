"""How does the hand go on? A recurrent forecast of strokes, compared by soft time warping.

cause: the loss fills the table of soft dynamic time warping cell by cell in two nested Python
    loops, with a handful of operations on tiny tensors for each cell, forward and backward
right: names the nested loop of soft_warp (many small operators from Python, in training_step or
    forward, or the backward of them); its change is to fill a whole anti-diagonal of the table at
    once, whose cells do not depend on each other (or a fused kernel)

Seen in https://github.com/mblondel/soft-dtw/issues/7 and
https://github.com/getkeops/keops/issues/348 (the same loop).
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS = 160
STROKES, SEEN, AHEAD, BATCH, WIDTH, GAMMA, FAR = 5000, 32, 14, 64, 96, 0.1, 1e6


def soft_min(*values):
    return -GAMMA * torch.logsumexp(torch.stack(values) / -GAMMA, dim=0)


def soft_warp(cost):
    """Return the soft cost of the best alignment of each pair, cell by cell."""
    far = cost.new_full((len(cost),), FAR)
    above = [torch.zeros_like(far)] + [far] * cost.shape[2]
    for row in cost.unbind(1):
        here = [far]
        for column, cell in enumerate(row.unbind(1)):
            best = soft_min(above[column], above[column + 1], here[column])  # cause
            here.append(cell + best)  # cause
        above = here
    return above[-1]


def soft_warp_by_diagonals(cost):
    """Return the same, where all cells of an anti-diagonal are filled at once."""
    pairs, side, _ = cost.shape
    slanted = nn.functional.pad(cost, (0, side)).flatten(1)[:, : side * (2 * side - 1)]
    slanted = slanted.view(pairs, side, 2 * side - 1)
    before = cost.new_full((pairs, side + 1), FAR)
    last = before.clone()
    before[:, 0] = 0
    for number, diagonal in enumerate(slanted.unbind(2)):
        low, high = max(0, number - side + 1), min(number, side - 1) + 1
        best = soft_min(before[:, low:high], last[:, low:high], last[:, low + 1 : high + 1])
        ends = (low + 1, side - high)
        before, last = last, nn.functional.pad(diagonal[:, low:high] + best, ends, value=FAR)
    return last[:, side]


class Strokes(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.warp = soft_warp_by_diagonals if fixed else soft_warp
        self.reads = nn.GRU(2, WIDTH, batch_first=True)
        self.writes = nn.Sequential(nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 2 * AHEAD))

    def training_step(self, batch, batch_idx):
        (strokes,) = batch
        seen, ahead = strokes[:, :SEEN], strokes[:, SEEN:]
        said = self.writes(self.reads(seen)[1][0]).view(-1, AHEAD, 2)
        apart = (said.unsqueeze(2) - ahead.unsqueeze(1)).square().sum(dim=3)
        loss = self.warp(apart).mean() / AHEAD
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    turns = torch.randn(STROKES, 1, 2).mul(0.2) * torch.arange(SEEN + AHEAD).view(1, -1, 1)
    strokes = TensorDataset(torch.sin(turns + torch.rand(STROKES, 1, 2) * 6))
    batches = BatchSampler(RandomSampler(strokes), BATCH, drop_last=True)
    data = DataLoader(strokes, sampler=batches, batch_size=None)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Strokes(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
