"""Which line of the power grid is overloaded? Attention along the lines of a grid.

cause: the features of the nodes at a line's ends are taken by indexing (h[ends]); its gradient is
    summed up one number after another (index_put_ with accumulate), and so most of the cost lies
    in backward, far from the lines that cause it
right: names the indexing in Layer.take (h[ends]) or its gradient (IndexBackward, index_put_); its
    change is index_select (or embedding), whose gradient sums whole rows

Seen in https://github.com/pyg-team/pytorch_geometric/issues/95 and
https://github.com/pytorch/pytorch/issues/15245.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 140
GRIDS, NODES, LINES, BATCH, WIDTH, HEADS = 1200, 150, 1200, 8, 32, 8


class Grids(Dataset):
    def __init__(self) -> None:
        self.loads = torch.randn(GRIDS, NODES, WIDTH)
        self.ends = torch.randint(0, NODES, (GRIDS, 2, LINES))

    def __len__(self):
        return GRIDS

    def __getitem__(self, index):
        return self.loads[index], self.ends[index]


class Layer(nn.Module):
    """A message to each node from its neighbours, weighed by attention."""

    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.values, self.keys, self.asked = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))

    def take(self, h, ends):
        if self.fixed:
            return h.index_select(0, ends)
        return h[ends]  # cause

    def forward(self, h, begin, end):
        likeness = self.take(self.keys(h), begin) * self.take(self.asked(h), end)
        weights = likeness.view(len(begin), HEADS, -1).sum(dim=2).clamp(-8, 8).exp()
        totals = torch.zeros(len(h), HEADS, device=h.device).index_add(0, end, weights)
        weights = weights / self.take(totals, end)
        values = self.take(self.values(h), begin).view(len(begin), HEADS, -1)
        messages = (values * weights.unsqueeze(2)).flatten(1)
        heard = torch.zeros_like(h).index_add(0, end, messages)
        return h + self.out(torch.cat([h, heard], dim=1))


class Grid(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(fixed) for _ in range(3))
        self.flow = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        loads, ends = batch
        first = torch.arange(len(loads), device=loads.device).view(-1, 1, 1) * NODES
        begin, end = (ends + first).transpose(0, 1).flatten(1)
        h = loads.flatten(0, 1)
        for layer in self.layers:
            h = layer(h, begin, end)
        flow = loads.mean(dim=2).flatten()
        loss = nn.functional.mse_loss(self.flow(h).squeeze(1), flow)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Grids(), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Grid(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
