"""Leaves without names: two cuts of each, a slowly moving second encoder and a queue of its keys.

accept: none
"""

from copy import deepcopy

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 350
SIDE, CUT, BATCH, QUEUE, WIDTH = 40, 32, 24, 2400, 64


class Leaves(Dataset):
    def __init__(self, count: int) -> None:
        self.pictures = torch.randint(256, (count, 3, SIDE, SIDE), dtype=torch.uint8)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitems__(self, indices):
        return self.pictures[indices]


class Garden(L.LightningDataModule):
    def train_dataloader(self):
        data = Leaves(BATCH * 100)
        return DataLoader(data, BATCH, shuffle=True, collate_fn=lambda batch: batch)

    def on_after_batch_transfer(self, pictures, dataloader_idx):
        pictures = pictures.float().div_(255)
        return self.cut(pictures), self.cut(pictures)

    def cut(self, pictures):
        top, left = torch.randint(SIDE - CUT, (2,)).tolist()
        cut = pictures[..., top : top + CUT, left : left + CUT]
        bright = 0.6 + 0.8 * torch.rand(len(cut), 1, 1, 1)
        turned = torch.where(torch.rand(len(cut), 1, 1, 1) < 0.5, cut.flip(-1), cut)
        return (turned * bright).clamp_(0, 1)


def encoder() -> nn.Sequential:
    layers = []
    for before, width in ((3, 32), (32, 48), (48, 64)):
        layers += [nn.Conv2d(before, width, 3, padding=1), nn.GroupNorm(4, width), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 16, WIDTH))


class Collapsed(Callback):
    """Says every 100 steps how wide the queue's keys are spread."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % 100 == 0:
            pl_module.log("spread", pl_module.queue.std(dim=0).mean())


class Similar(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.online = encoder()
        self.slow = deepcopy(self.online).requires_grad_(False)
        queue = nn.functional.normalize(torch.randn(QUEUE, WIDTH), dim=1)
        self.register_buffer("queue", queue)
        self.next = 0

    def training_step(self, batch, batch_idx):
        one, other = batch
        found = nn.functional.normalize(self.online(one), dim=1)
        with torch.no_grad():
            keys = nn.functional.normalize(self.slow(other), dim=1)
        near = (found * keys).sum(dim=1, keepdim=True)
        scores = torch.cat([near, found @ self.queue.T], dim=1) / 0.2
        loss = nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
        self.log("train_loss", loss)
        return {"loss": loss, "keys": keys}

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        slow, online = list(self.slow.parameters()), list(self.online.parameters())
        torch._foreach_lerp_(slow, online, 0.01)
        self.queue[self.next : self.next + BATCH] = outputs["keys"]
        self.next = (self.next + BATCH) % QUEUE

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.online.parameters(), lr=0.03, momentum=0.9, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)]


def main(run: Run) -> None:
    trainer = L.Trainer(callbacks=[Collapsed(), *run.callbacks], **run.trainer)
    trainer.fit(Similar(), Garden())


if __name__ == "__main__":
    main(arguments(STEPS))
