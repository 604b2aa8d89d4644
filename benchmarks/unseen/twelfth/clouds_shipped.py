"""Where will it rain in ten minutes? A small U-Net over radar pictures.

cause: the dataset hands over the whole history of twelve wide frames as float64 though the model
    looks at the middle of the last three as float32, so that the worker copies and sends some
    forty times as much as is used
right: names the loading (the worker's item, its collation or the sending of large batches), or
    points at a marked line; its change cuts and converts the frames in the dataset, or says that
    the batches are too large or float64
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 220
DAYS, LENGTH, SIDE, HISTORY, USED, CROP = 8, 150, 144, 12, 3, 40


def middle(frames):
    """The last frames' middle as float32, which is what the model looks at."""
    edge = (SIDE - CROP) // 2
    return frames[..., -USED - 1 :, edge : edge + CROP, edge : edge + CROP]


class Radar(Dataset):
    def __init__(self, small: bool) -> None:
        field = np.random.default_rng(5).random((DAYS, LENGTH, SIDE, SIDE), dtype=np.float32)
        self.field = (field * 200).astype(np.uint8)
        self.small = small

    def __len__(self) -> int:
        return DAYS * (LENGTH - HISTORY - 1)

    def __getitem__(self, index: int) -> torch.Tensor:
        day, start = divmod(index, LENGTH - HISTORY - 1)
        frames = self.field[day, start : start + HISTORY + 1]
        if self.small:
            return torch.from_numpy(middle(frames) / np.float32(200))
        return torch.from_numpy(frames / 200.0)  # cause


def conv(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU(inplace=True)
    )


class Nowcast(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.first = conv(USED, 24)
        self.down = nn.Sequential(nn.MaxPool2d(2), conv(24, 48), conv(48, 48))
        self.up = nn.ConvTranspose2d(48, 24, 2, stride=2)
        self.last = nn.Sequential(conv(48, 24), nn.Conv2d(24, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shallow = self.first(x)
        deep = self.up(self.down(shallow))
        return self.last(torch.cat([shallow, deep], dim=1))

    def training_step(self, frames: torch.Tensor, batch_idx: int) -> torch.Tensor:
        if frames.shape[-1] != CROP:
            frames = middle(frames).float()  # cause
        seen, rain = frames[:, :USED], frames[:, USED:]
        loss = nn.functional.smooth_l1_loss(self(seen), rain)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Radar(run.fixed), batch_size=6, shuffle=True, num_workers=1, persistent_workers=True
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Nowcast(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
