"""Which of 100 grape varieties is on the leaf's photograph: a residual net of 50 layers.

seen in: ultralytics/ultralytics issue 13179, "NCHW vs NHWC", and NVIDIA/apex pull 668, "Channels
last support" (22 % for ResNet-50)

cause: net and photographs lie in memory plane after plane (NCHW), so the convolutions in bfloat16
    transpose to channels-last and back around each of their kernels
right: says that the layout costs time (transposes around the convolutions, layout kernels); its
    change is memory_format=torch.channels_last for net and input
"""

import lightning as L
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 64, 200
BATCH, SIDE, WIDTH, DEPTHS = sized((128, 160, 64, (3, 4, 6, 3)), (16, 64, 8, (1, 1, 1, 1)))
KINDS = 100


def convolution(into: int, out: int, size: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(out)
    )


class Bottleneck(nn.Module):
    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            convolution(into, width, 1),
            nn.ReLU(inplace=True),
            convolution(width, width, 3, stride),
            nn.ReLU(inplace=True),
            convolution(width, 4 * width, 1),
        )
        changes = stride > 1 or into != 4 * width
        self.short = convolution(into, 4 * width, 1, stride) if changes else nn.Identity()

    def forward(self, x):
        return (self.body(x) + self.short(x)).relu_()


def residual_net() -> nn.Sequential:
    layers = [convolution(3, WIDTH, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    into = WIDTH
    for stage, depth in enumerate(DEPTHS):
        for number in range(depth):
            width = WIDTH * 2**stage
            layers.append(Bottleneck(into, width, 2 if stage and not number else 1))
            into = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(into, KINDS))


class Leaves(L.LightningModule):
    def __init__(self, channels_last: bool) -> None:
        super().__init__()
        self.net = residual_net()  # cause
        self.layout = torch.contiguous_format
        if channels_last:
            self.layout = torch.channels_last
            self.net.to(memory_format=self.layout)

    def training_step(self, batch, batch_idx):
        photos, kinds = batch
        photos = photos.to(memory_format=self.layout).float() / 255  # cause
        loss = nn.functional.cross_entropy(self.net(photos), kinds)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.002, momentum=0.9, fused=True)


def main(run: Run) -> None:
    photos = torch.randint(256, (4 * BATCH, 3, SIDE, SIDE), dtype=torch.uint8)
    data = TensorDataset(photos, torch.randint(KINDS, (4 * BATCH,)))
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
    trainer.fit(Leaves(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
