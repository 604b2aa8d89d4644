"""What shapes do tumour spheroids take? A variational autoencoder over stacks from a microscope.

cause: __getitem__ opens the compressed shard with np.load and inflates all 48 stacks in it for the
    one that is asked for, in each worker and for each item
right: names __getitem__ or load (or the loader's workers as too slow for the step) at a marked
    line; its change opens each shard once, or stores the stacks uncompressed or one by one
"""

import tempfile
from pathlib import Path

import lightning as L
import numpy as np
import torch
import torch.nn.functional as F
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 250
SHARDS, PER_SHARD, DEPTH, SIDE, LATENT = 20, 48, 8, 24, 32


def write_shards(folder: Path, plain: bool) -> None:
    rng = np.random.default_rng(2)
    axes = np.mgrid[-1 : 1 : DEPTH * 1j, -1 : 1 : SIDE * 1j, -1 : 1 : SIDE * 1j]
    for number in range(SHARDS):
        radii = rng.uniform(0.4, 1.0, (PER_SHARD, 3, 1, 1, 1))
        inside = ((axes / radii) ** 2).sum(axis=1) < 1
        noise = rng.integers(0, 8, inside.shape)
        stacks = (inside * 200 + noise).astype(np.uint8)
        if plain:
            np.save(folder / f"shard{number:02d}.npy", stacks)
        else:
            np.savez_compressed(folder / f"shard{number:02d}.npz", stacks=stacks)


class Spheroids(Dataset):
    def __init__(self, folder: Path) -> None:
        self.shards = sorted(folder.iterdir())

    def __len__(self) -> int:
        return len(self.shards) * PER_SHARD

    def __getitem__(self, index: int) -> torch.Tensor:
        shard, place = divmod(index, PER_SHARD)
        path = self.shards[shard]
        if path.suffix == ".npy":
            stack = np.load(path, mmap_mode="r")[place]
        else:
            stack = np.load(path)["stacks"][place]  # cause
        return torch.from_numpy(stack.astype(np.float32) / 255)


class Spheres(L.LightningDataModule):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def train_dataloader(self) -> DataLoader:
        return DataLoader(Spheroids(self.folder), batch_size=12, shuffle=True, num_workers=2)


class Shapes(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        small = 64 * (SIDE // 4) ** 2
        self.encoder = nn.Sequential(
            nn.Conv2d(DEPTH, 32, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(32, 64, 3, stride=2, padding=1),
            nn.SiLU(),
            nn.Flatten(),
            nn.Linear(small, 2 * LATENT),
        )
        self.decoder = nn.Sequential(
            nn.Linear(LATENT, small),
            nn.Unflatten(1, (64, SIDE // 4, SIDE // 4)),
            nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1),
            nn.SiLU(),
            nn.Conv2d(32, 32, 3, padding=1),
            nn.SiLU(),
            nn.ConvTranspose2d(32, DEPTH, 4, stride=2, padding=1),
        )

    def training_step(self, stacks: torch.Tensor, batch_idx: int) -> torch.Tensor:
        mean, spread = self.encoder(stacks).chunk(2, dim=1)
        latent = mean + torch.randn_like(mean) * (spread / 2).exp()
        rebuilt = F.binary_cross_entropy_with_logits(self.decoder(latent), stacks)
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).mean()
        loss = rebuilt + 0.01 * divergence
        self.log_dict({"rebuilt": rebuilt, "divergence": divergence, "loss": loss})
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder, plain=run.fixed)
        trainer = L.Trainer(callbacks=run.callbacks, **run.trainer)
        trainer.fit(Shapes(), datamodule=Spheres(folder))


if __name__ == "__main__":
    main(arguments(STEPS))
