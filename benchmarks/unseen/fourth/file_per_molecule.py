"""The energy of small molecules from the places of their atoms.

seen in: the PyTorch forum's "Storing learning data in tensors, data loading optimization" (66896)

cause: each molecule is a .pt file of its own, opened and unpickled for every item of every epoch
accept: data-wait @line
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
ATOMS, ELEMENTS = 18, 6


class Files(Dataset):
    def __init__(self, paths) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index):
        return torch.load(self.paths[index])  # cause


class Energies(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.atoms = nn.Embedding(ELEMENTS, 48)
        self.spread = nn.Linear(16, 48)
        self.mix = nn.Sequential(nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 1))
        self.register_buffer("centres", torch.linspace(0, 5, 16))

    def training_step(self, batch, batch_idx):
        atoms = self.atoms(batch["elements"])
        distances = torch.cdist(batch["places"], batch["places"])
        weights = self.spread(torch.exp(-(distances.unsqueeze(-1) - self.centres).square()))
        around = torch.einsum("bijc,bjc->bic", weights, atoms)
        energy = self.mix(torch.cat([atoms, around], -1)).sum((1, 2))
        loss = nn.functional.mse_loss(energy, batch["energy"])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def molecule():
    return {
        "places": torch.rand(ATOMS, 3) * 4,
        "elements": torch.randint(ELEMENTS, (ATOMS,)),
        "energy": torch.randn(()),
    }


def main(run: Run) -> None:
    folder = run.root / "molecules"
    folder.mkdir(parents=True, exist_ok=True)
    molecules = [molecule() for _ in range(480)]
    for number, one in enumerate(molecules):
        torch.save(one, folder / f"{number:05}.pt")
    files = Files(sorted(folder.glob("*.pt")))
    if run.fixed:  # read once, kept: they are small
        files = list(map(torch.load, files.paths))
    data = DataLoader(files, batch_size=16, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Energies(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
