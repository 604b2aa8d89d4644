"""How fast is the road tonight? A graph network over the junctions of a town, clean.

The graph is the same in all samples and lies in buffers; the traffic of a whole batch is cut from
one tensor at once, so that the loader needs no workers.
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 320
JUNCTIONS, ROADS, HOURS, PAST, WIDTH, BATCH = 90, 360, 5000, 12, 48, 20


class Traffic(Dataset):
    def __init__(self):
        daily = torch.sin(torch.arange(HOURS)[:, None] * 0.26 + torch.rand(JUNCTIONS) * 6)
        self.speeds = daily + 0.2 * torch.randn(HOURS, JUNCTIONS)
        self.windows = self.speeds.unfold(0, PAST + 1, 1)

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, hours):
        cut = self.windows[hours]
        return {"past": cut[..., :PAST], "next": cut[..., PAST]}


class Diffuse(nn.Module):
    def __init__(self):
        super().__init__()
        self.here, self.there = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, start, end, share):
        sent = self.there(x)[start] * share
        summed = torch.zeros_like(x).index_add(0, end, sent)
        return x + torch.relu(self.norm(self.here(x) + summed))


class Roads(L.LightningModule):
    def __init__(self):
        super().__init__()
        start, end = torch.randint(0, JUNCTIONS, (2, ROADS))
        degree = torch.bincount(end, minlength=JUNCTIONS).clamp(min=1)
        self.register_buffer("start", start)
        self.register_buffer("end", end)
        self.register_buffer("share", (1 / degree[end])[:, None, None])
        self.lift = nn.Linear(PAST, WIDTH)
        self.layers = nn.ModuleList(Diffuse() for _ in range(4))
        self.out = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        x = self.lift(batch["past"].transpose(0, 1))
        for layer in self.layers:
            x = layer(x, self.start, self.end, self.share)
        guessed = self.out(x).squeeze(2).T
        loss = nn.functional.l1_loss(guessed, batch["next"])
        self.log("mae", loss, batch_size=BATCH)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    traffic = Traffic()
    batches = BatchSampler(RandomSampler(traffic), BATCH, drop_last=True)
    loader = DataLoader(traffic, sampler=batches, batch_size=None)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Roads(), loader)


if __name__ == "__main__":
    main(arguments(STEPS))
