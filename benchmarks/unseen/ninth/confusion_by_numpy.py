"""Road, kerb, sign and sky in photographs of streets, with the mean IoU of each epoch.

seen in: meetps/pytorch-semseg issue 199, "The metrics of computing confusion matrix might be more
efficient", and jfzhang95/pytorch-deeplab-xception issue 16 (the same NumPy code, in many copies)

cause: every training step brings predictions and labels of all pixels to the host and counts the
    confusion matrix there with NumPy, while the GPU has nothing to do
right: says that the host waits for the GPU or works on its own at one of the marked lines (the
    copies to the host, the count); its change counts on the device, or seldom
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments, sized
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

STEPS, EPOCH = 100, 200
BATCH, SIDE, WIDTH = sized((16, 256, 128), (2, 64, 16))
KINDS = 12


def block(into: int, out: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(into, out, 3, stride, padding=1, bias=False), nn.BatchNorm2d(out), nn.ReLU()
    )


class Streets(L.LightningModule):
    def __init__(self, on_device: bool) -> None:
        super().__init__()
        self.on_device = on_device
        stages = [block(3, WIDTH // 4, 2), block(WIDTH // 4, WIDTH, 2)]
        body = [block(WIDTH, WIDTH) for _ in range(6)]
        self.net = nn.Sequential(*stages, *body, nn.Conv2d(WIDTH, KINDS, 1))
        self.net.to(memory_format=torch.channels_last)
        self.register_buffer("confusion", torch.zeros(KINDS, KINDS, dtype=torch.long))

    def forward(self, photos):
        photos = photos.to(memory_format=torch.channels_last).float() / 255
        return nn.functional.interpolate(self.net(photos), scale_factor=4, mode="bilinear")

    def count(self, kinds, found) -> None:
        if self.on_device:
            codes = (KINDS * kinds + found).flatten()
            self.confusion.view(-1).scatter_add_(0, codes, torch.ones_like(codes))
            return
        kinds = kinds.cpu().numpy().ravel()  # cause
        found = found.cpu().numpy().ravel()  # cause
        valid = (kinds >= 0) & (kinds < KINDS)  # cause
        codes = KINDS * kinds[valid].astype(int) + found[valid]  # cause
        counts = np.bincount(codes, minlength=KINDS**2)  # cause
        self.confusion += torch.from_numpy(counts).view(KINDS, KINDS).to(self.device)

    def training_step(self, batch, batch_idx):
        photos, kinds = batch
        scores, kinds = self(photos), kinds.long()
        loss = nn.functional.cross_entropy(scores, kinds)
        self.count(kinds, scores.argmax(dim=1))
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        hits = self.confusion.diagonal()
        either = self.confusion.sum(0) + self.confusion.sum(1) - hits
        self.log("train_miou", (hits / either.clamp(min=1)).mean())
        self.confusion.zero_()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    cells = SIDE // 8
    kinds = torch.randint(KINDS, (4 * BATCH, 8, 8), dtype=torch.uint8)
    kinds = kinds.repeat_interleave(cells, 1).repeat_interleave(cells, 2)
    colours = torch.randint(256, (KINDS, 3), dtype=torch.uint8)
    photos = colours[kinds.long()].movedim(3, 1).contiguous()
    data = TensorDataset(photos, kinds)
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
    trainer.fit(Streets(run.fixed), batches)


if __name__ == "__main__":
    main(arguments(STEPS))
