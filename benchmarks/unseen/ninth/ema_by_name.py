"""Moths at a light trap, 200 kinds: a residual net, and the moving average of its weights.

seen in: open-mmlab/mmengine pull 281, "Optimize parameter updating speed in AveragedModel" (20 ms
an update), ultralytics/yolov5 issue 5241 (the loop over state_dict), and lucidrains/ema-pytorch
issue 5, "about the training speed"

cause: the moving average of the weights is updated after each step in a Python loop over the state
    dict: three small kernels for each of some three hundred tensors
right: says that the update of the average (a marked line, or on_train_batch_end of this module)
    takes host time in every step; its change updates all tensors at once (torch._foreach_*,
    AveragedModel with a multi_avg_fn) or seldom
"""

from copy import deepcopy

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 100, 200
BATCH, SIDE, WIDTH, DEPTH = sized((64, 64, 96, 24), (4, 16, 8, 3))
KINDS, DECAY = 200, 0.999


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.two = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm_two = nn.BatchNorm2d(WIDTH)

    def forward(self, x):
        return (x + self.norm_two(self.two(self.norm(self.one(x)).relu()))).relu()


class Moths(L.LightningModule):
    def __init__(self, together: bool) -> None:
        super().__init__()
        self.together = together
        self.net = nn.Sequential(
            nn.Conv2d(3, WIDTH, 4, 4),
            *[Residual() for _ in range(DEPTH)],
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(WIDTH, KINDS),
        )
        self.net.to(memory_format=torch.channels_last)
        self.average = deepcopy(self.net).requires_grad_(False)

    def on_train_start(self):
        pairs = zip(self.average.state_dict().values(), self.net.state_dict().values(), strict=True)
        floats = [(mean, now) for mean, now in pairs if mean.is_floating_point()]
        self.means, self.weights = map(list, zip(*floats, strict=True))

    def training_step(self, batch, batch_idx):
        photos, kinds = batch
        photos = photos.to(memory_format=torch.channels_last).float() / 255
        loss = nn.functional.cross_entropy(self.net(photos), kinds)
        self.log("train_loss", loss)
        return loss

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        if self.together:
            torch._foreach_lerp_(self.means, self.weights, 1 - DECAY)
            return
        weights = self.net.state_dict()  # cause
        for name, mean in self.average.state_dict().items():  # cause
            if mean.dtype.is_floating_point:
                mean *= DECAY  # cause
                mean += (1 - DECAY) * weights[name].detach()  # cause

    def on_train_end(self):
        distance = sum((a - b).abs().sum() for a, b in zip(self.means, self.weights, strict=True))
        self.trainer.logger.log_metrics({"to_average": distance.item()})

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3, fused=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)]


def main(run: Run) -> None:
    photos = torch.randint(256, (8 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8)
    data = TensorDataset(photos, torch.randint(KINDS, (8 * BATCH,)))
    batches = DataLoader(
        data,
        sampler=BatchSampler(RandomSampler(data, num_samples=EPOCH * BATCH), BATCH, drop_last=True),
        batch_size=None,
        num_workers=2,
        pin_memory=True,
        persistent_workers=True,
    )
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Moths(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
