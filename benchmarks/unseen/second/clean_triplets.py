"""Product images by metric learning: batch-hard triplets as tensors, images made by one worker.

accept: none
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 250
PRODUCTS, SHOTS = 12, 4


class Products(Dataset):
    """Some shots each of some products, cropped at random from larger pictures."""

    def __init__(self) -> None:
        self.pictures = np.random.default_rng(0).random((200, 3, 72, 72), dtype=np.float32)

    def __len__(self) -> int:
        return len(self.pictures)

    def __getitem__(self, products: list[int]):
        shots = np.empty((len(products), SHOTS, 3, 64, 64), dtype=np.float32)
        for own, product in zip(shots, products, strict=True):
            for shot in own:
                top, left = torch.randint(8, (2,)).tolist()
                shot[:] = self.pictures[product, :, top : top + 64, left : left + 64]
        labels = torch.tensor(products).repeat_interleave(SHOTS)
        return torch.from_numpy(shots.reshape(-1, 3, 64, 64)), labels


def hardest_triplets(features, labels, margin: float = 0.2):
    distance = torch.cdist(features, features)
    same = labels[:, None] == labels
    far = distance.masked_fill(~same, 0).amax(dim=1)
    near = distance.masked_fill(same, float("inf")).amin(dim=1)
    return (far - near + margin).relu().mean()


class Embedder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 32, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )

    def training_step(self, batch, batch_idx):
        images, labels = batch
        features = nn.functional.normalize(self.net(images))
        loss = hardest_triplets(features, labels)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    products = Products()
    picks = BatchSampler(
        RandomSampler(products, num_samples=2400, replacement=True), PRODUCTS, True
    )
    data = DataLoader(
        products, sampler=picks, batch_size=None, num_workers=1, persistent_workers=True
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Embedder(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
