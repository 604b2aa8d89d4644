"""Molecules out of noise: a diffusion model over the positions of atoms.

cause: anomaly detection was switched on to find a NaN and is still on
right: anomaly detection left on; names detect_anomaly=True (or a marked line); the change switches
    it off
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler

STEPS = 350
MOLECULES, ATOMS, ELEMENTS, WIDTH, NOISES = 4000, 18, 6, 64, 200


class Molecules(Dataset):
    def __init__(self) -> None:
        self.elements = torch.randint(ELEMENTS, (MOLECULES, ATOMS))
        places = torch.randn(MOLECULES, ATOMS, 3).cumsum(1)
        self.places = places - places.mean(1, keepdim=True)

    def __len__(self):
        return MOLECULES

    def __getitem__(self, indices):
        return self.elements[indices], self.places[indices]


class Messages(nn.Module):
    """One round: every atom hears of every other, by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * WIDTH + 1, WIDTH), nn.SiLU())
        self.pull = nn.Linear(WIDTH, 1, bias=False)
        self.node = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, atoms, places):
        apart = places[:, :, None] - places[:, None]
        far = apart.square().sum(-1, keepdim=True)
        own = atoms[:, :, None].expand(-1, -1, ATOMS, -1)
        other = atoms[:, None].expand(-1, ATOMS, -1, -1)
        heard = self.edge(torch.cat([own, other, far], dim=-1))
        moved = (apart / (far + 1).sqrt() * self.pull(heard)).mean(2)
        atoms = atoms + self.node(torch.cat([atoms, heard.mean(2)], dim=-1))
        return self.norm(atoms), places + moved


class Denoiser(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.elements = nn.Embedding(ELEMENTS, WIDTH)
        self.level = nn.Embedding(NOISES, WIDTH)
        self.rounds = nn.ModuleList(Messages() for _ in range(4))
        self.register_buffer("kept", torch.linspace(1, 0.01, NOISES).cumprod(0) ** 0.05)

    def training_step(self, batch, batch_idx):
        elements, places = batch
        level = torch.randint(NOISES, (len(places),), device=self.device)
        kept = self.kept[level, None, None]
        noise = torch.randn_like(places)
        noisy = kept.sqrt() * places + (1 - kept).sqrt() * noise
        atoms, moved = self.elements(elements) + self.level(level)[:, None], noisy
        for one in self.rounds:
            atoms, moved = one(atoms, moved)
        loss = nn.functional.mse_loss(moved - noisy, noise)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    molecules = Molecules()
    batches = BatchSampler(RandomSampler(molecules), batch_size=8, drop_last=True)
    data = DataLoader(molecules, sampler=batches, batch_size=None)
    trainer = L.Trainer(
        callbacks=run.callbacks,
        detect_anomaly=not run.fixed,  # cause
        gradient_clip_val=1.0,
        **run.trainer,
    )
    trainer.fit(Denoiser(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
