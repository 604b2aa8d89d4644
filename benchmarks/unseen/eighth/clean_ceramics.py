"""Patterns for tiles: a generator, a judge, two optimizers by hand, norms seen every 50 batches.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 700  # of two optimizers: 350 batches
NOISE, SIDE = 48, 32


class Tiles(Dataset):
    def __init__(self, count: int) -> None:
        self.tiles = torch.rand(count, 3, SIDE, SIDE) * 2 - 1

    def __len__(self) -> int:
        return len(self.tiles)

    def __getitems__(self, indices):
        return self.tiles[indices]


def generator() -> nn.Sequential:
    layers = [nn.Linear(NOISE, 64 * 16), nn.Unflatten(1, (64, 4, 4))]
    for before, width in ((64, 48), (48, 32), (32, 24)):
        layers += [nn.ConvTranspose2d(before, width, 4, stride=2, padding=1), nn.BatchNorm2d(width)]
        layers += [nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(24, 3, 3, padding=1), nn.Tanh())


def judge() -> nn.Sequential:
    layers = []
    for before, width in ((3, 24), (24, 48), (48, 64)):
        layers += [nn.Conv2d(before, width, 4, stride=2, padding=1), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, 1))


class Patterns(L.LightningModule):
    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.generator, self.judge = generator(), judge()

    def training_step(self, tiles, batch_idx):
        making, judging = self.optimizers()
        made = self.generator(torch.randn(len(tiles), NOISE))
        judged = self.judge(torch.cat([tiles, made.detach()]))[:, 0]
        true, false = judged.chunk(2)
        hinge = torch.relu(1 - true).mean() + torch.relu(1 + false).mean()
        judging.zero_grad()
        self.manual_backward(hinge)
        norm = nn.utils.clip_grad_norm_(self.judge.parameters(), 10.0, foreach=True)
        judging.step()
        self.judge.requires_grad_(False)
        fooled = -self.judge(made).mean()
        making.zero_grad()
        self.manual_backward(fooled)
        making.step()
        self.judge.requires_grad_(True)
        if batch_idx % 50 == 0:
            self.log_dict({"hinge": hinge, "fooled": fooled, "norm": norm})

    def on_train_epoch_end(self):
        for schedule in self.lr_schedulers():
            schedule.step()

    def configure_optimizers(self):
        both = [
            torch.optim.Adam(net.parameters(), lr=rate, betas=(0.5, 0.99), fused=True)
            for net, rate in ((self.generator, 2e-4), (self.judge, 4e-4))
        ]
        return both, [torch.optim.lr_scheduler.ExponentialLR(each, 0.98) for each in both]


def main(run: Run) -> None:
    data = DataLoader(Tiles(2400), batch_size=16, shuffle=True, collate_fn=lambda batch: batch)
    trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
    trainer.fit(Patterns(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
