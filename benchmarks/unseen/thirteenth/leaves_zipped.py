"""Which tree is the leaf from? A classifier of pictures that lie in one zip archive.

cause: __getitem__ opens the archive anew for each picture, and with it reads the archive's whole
    table of contents
right: names the opening of the archive (zipfile.ZipFile in __getitem__) as what the loader's worker
    spends its time on; its change is to open it once a worker and to keep it
"""

import io
import zipfile

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 280
COUNT, BATCH, SIDE, TREES = 760, 12, 48, 8


def archived(path):
    """Write the archive of pictures and return its labels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chance = np.random.default_rng(1)
    trees = chance.integers(0, TREES, COUNT)
    with zipfile.ZipFile(path, "w") as archive:
        for index, tree in enumerate(trees):
            picture = chance.integers(0, 128, (3, SIDE, SIDE), dtype=np.uint8)
            picture[:, 8:40, 4 * tree : 4 * tree + 12] += 60
            buffer = io.BytesIO()
            np.save(buffer, picture)
            archive.writestr(f"leaf_{index:05}.npy", buffer.getvalue())
    return torch.from_numpy(trees)


class Leaves(Dataset):
    def __init__(self, path, fixed) -> None:
        self.path = path
        self.fixed = fixed
        self.trees = archived(path)
        self.archive = None

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        if self.archive is None or not self.fixed:
            self.archive = zipfile.ZipFile(self.path)  # cause
        picture = np.load(io.BytesIO(self.archive.read(f"leaf_{index:05}.npy")))
        return torch.from_numpy(picture).float() / 255, self.trees[index]


class Classifier(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(64, 96, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(4),
            nn.Flatten(),
            nn.Linear(96 * 16, TREES),
        ).to(memory_format=torch.channels_last)

    def training_step(self, batch, batch_idx):
        pictures, trees = batch
        loss = nn.functional.cross_entropy(self.net(pictures), trees)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Leaves(run.root / "leaves.zip", run.fixed),
        batch_size=BATCH,
        shuffle=True,
        num_workers=1,
        persistent_workers=True,
    )
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Classifier(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
