"""Is the cell dividing? A classifier of crops from large microscope pictures.

cause: the dataset hands each whole picture, as floats, from the workers to the training process,
    and only training_step cuts the small crop that is trained on
right: names the size of the samples (megabytes each through the workers' queue, of which the step
    uses a small crop), at __getitem__, the collation, or the crop in training_step; its change is
    to crop in __getitem__ (or to send the stored bytes); more workers is no help
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
COUNT, BATCH, SIDE, CROP = 96, 8, 640, 64


def cropped(picture, centre):
    top, left = (centre - CROP // 2).tolist()
    return picture[..., top : top + CROP, left : left + CROP]


class Cells(Dataset):
    """The pictures are kept as bytes; each has one cell that is labelled."""

    def __init__(self, fixed) -> None:
        self.fixed = fixed
        self.pictures = torch.randint(0, 160, (COUNT, 1, SIDE, SIDE), dtype=torch.uint8)
        self.centres = torch.randint(CROP, SIDE - CROP, (COUNT, 2))
        self.dividing = torch.randint(0, 2, (COUNT,))
        for picture, centre, dividing in zip(
            self.pictures, self.centres, self.dividing, strict=True
        ):
            cropped(picture, centre)[:, 16:48, 16:48] += (40 * dividing).to(torch.uint8)

    def __len__(self):
        return COUNT * 20

    def __getitem__(self, index):
        index %= COUNT
        picture, centre = self.pictures[index], self.centres[index]
        if self.fixed:
            picture = cropped(picture, centre)
        return picture.float() / 255, centre, self.dividing[index]  # cause


class Classifier(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        self.fixed = fixed
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(48, 96, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(96, 2),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        pictures, centres, dividing = batch
        if not self.fixed:
            pairs = zip(pictures, centres, strict=True)
            pictures = torch.stack([cropped(picture, centre) for picture, centre in pairs])  # cause
        loss = nn.functional.cross_entropy(self.net(pictures), dividing)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Cells(run.fixed),
        batch_size=BATCH,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Classifier(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
