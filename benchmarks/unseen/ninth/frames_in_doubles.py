"""Clouds over one place, frame by frame: eight bands of a weather satellite, in order of time.

seen in: pytorch/pytorch issue 58812 (`.to(device)` of what was made float before it), Kaixhin/
Rainbow issue 48, "Suggestions for improving training speed (especially when input data is large)",
and roboflow/rf-detr pull 1415 (widen bytes on the accelerator)

cause: the frames are divided by 255.0 in NumPy, which makes doubles of bytes: each batch is copied
    to the GPU with eight times its bytes, from memory that is not pinned
right: says that the copy of the batch to the GPU holds the step back; its change makes the batch
    smaller (bytes, or at least float32, converted on the GPU) or has it copied from pinned memory
    ahead of its step
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler

STEPS, EPOCH = 90, 200
BATCH, SIDE, WIDTH = sized((16, 256, 96), (2, 32, 8))
BANDS, CHUNKS = 8, 5


class Frames(Dataset):
    """Batches of frames that follow each other: a slice of one array, nothing is copied."""

    def __init__(self, as_bytes: bool) -> None:
        chance = np.random.default_rng(0)
        shape = (CHUNKS * BATCH, BANDS, SIDE, SIDE)
        frames = chance.integers(256, size=shape, dtype=np.uint8)
        self.clouds = torch.from_numpy(frames[:, :1, ::4, ::4] > 128).float()
        if not as_bytes:
            frames = frames / 255.0  # cause
        self.frames = torch.from_numpy(frames)

    def __len__(self):
        return CHUNKS

    def __getitem__(self, number):
        part = slice(number * BATCH, (number + 1) * BATCH)
        return self.frames[part], self.clouds[part]


class Clouds(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        layers, into = [nn.Conv2d(BANDS, WIDTH, 4, 4)], WIDTH
        for _ in range(5):
            convolution = nn.Conv2d(into, WIDTH, 3, padding=1, bias=False)
            layers += [convolution, nn.BatchNorm2d(WIDTH), nn.ReLU()]
        self.net = nn.Sequential(*layers, nn.Conv2d(WIDTH, 1, 1))
        self.net.to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        frames, clouds = batch
        whole = not frames.is_floating_point()
        frames = frames.float().to(memory_format=torch.channels_last)
        scores = self.net(frames / 255 if whole else frames)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, clouds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    frames = Frames(run.fixed)
    batches = DataLoader(frames, batch_size=None, sampler=RandomSampler(frames, num_samples=EPOCH))
    trainer = L.Trainer(
        precision="bf16-mixed", enable_checkpointing=False, callbacks=run.callbacks, **run.trainer
    )
    trainer.fit(Clouds(), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
