"""Handwritten digits from memory, as a well-known dataset class hands them out.

seen in: discuss.pytorch.org/t/17644, "Any reason why this code is so much slower (3 s an epoch)?"

cause: every digit lies in memory as a tensor, yet becomes a PIL image, an array, a tensor and a
    normalized tensor again each time that it is asked for
right: names the fetching of items in the loader (not the model) as the cost, or the lines of
    __getitem__ that convert and normalize; its change takes the work out of the step (done once
    beforehand, by whole batches, or in worker processes)
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
MEAN, DEVIATION = 0.1307, 0.3081


class Digits(Dataset):
    def __init__(self, images, labels) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index):
        image = Image.fromarray(self.images[index].numpy())  # cause
        pixels = torch.from_numpy(np.array(image, dtype=np.float32)).unsqueeze(0)  # cause
        pixels = pixels.div(255).sub(MEAN).div(DEVIATION)  # cause
        return pixels, int(self.labels[index])  # cause


class ReadyDigits(Dataset):
    def __init__(self, images, labels) -> None:
        self.images = images.unsqueeze(1).float().div(255).sub(MEAN).div(DEVIATION)
        self.labels = labels

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, indices):
        return self.images[indices], self.labels[indices]


class Reader(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(800, 128),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(128, 10),
        )

    def training_step(self, batch, batch_idx):
        digits, labels = batch
        loss = nn.functional.cross_entropy(self.net(digits), labels)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    images = torch.randint(256, (12_000, 28, 28), dtype=torch.uint8)
    labels = torch.randint(10, (12_000,))
    if run.fixed:
        digits = ReadyDigits(images, labels)
        data = DataLoader(digits, batch_size=96, shuffle=True, collate_fn=tuple)
    else:
        data = DataLoader(Digits(images, labels), batch_size=96, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Reader(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
