"""Where are the nuclei? A segmentation net whose loss counts pixels near an outline more.

cause: the loss works out how far each pixel is from an outline, by widening the masks again and
    again (max_pool2d), in every step, although a mask's weights are always the same
right: names the widening (weights(), called by training_step for its loss, or its max_pool2d); its
    change is to work the weights out once, with the dataset (or at least in workers)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
COUNT, BATCH, SIDE, REACH = 240, 8, 64, 10


def weights(masks):
    """Return the weight of each pixel: the nearer to an outline, the more."""
    wide = torch.stack([masks, 1 - masks], dim=1)
    near = torch.zeros_like(wide)
    for _ in range(REACH):
        wide = nn.functional.max_pool2d(wide, 3, stride=1, padding=1)  # cause
        near = near + wide  # cause
    return 1 + 4 * (near.amin(dim=1) / REACH) ** 2


class Nuclei(Dataset):
    def __init__(self, fixed) -> None:
        at = torch.arange(SIDE)
        self.masks = torch.zeros(COUNT, SIDE, SIDE)
        for _ in range(5):
            x, y = torch.randint(0, SIDE, (2, COUNT, 1, 1))
            self.masks[(at[None, :, None] - y) ** 2 + (at[None, None] - x) ** 2 < 60] = 1
        self.seen = self.masks[:, None] + 0.5 * torch.randn(COUNT, 1, SIDE, SIDE)
        self.weights = weights(self.masks) if fixed else None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        item = {"seen": self.seen[index], "mask": self.masks[index]}
        if self.weights is not None:
            item["weights"] = self.weights[index]
        return item


def conv(inside, outside):
    return nn.Sequential(
        nn.Conv2d(inside, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()
    )


class Segmenter(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.enter = conv(1, 16)
        self.deep = nn.Sequential(nn.MaxPool2d(2), conv(16, 32), conv(32, 32))
        self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.leave = nn.Conv2d(16, 1, 1)

    def forward(self, seen):
        wide = self.enter(seen)
        return self.leave(wide + self.up(self.deep(wide))).squeeze(1)

    def training_step(self, batch, batch_idx):
        mask = batch["mask"]
        if "weights" in batch:
            weight = batch["weights"]
        else:
            weight = weights(mask)
        guessed = self(batch["seen"])
        loss = nn.functional.binary_cross_entropy_with_logits(guessed, mask, weight)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Nuclei(run.fixed), batch_size=BATCH, shuffle=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Segmenter(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
