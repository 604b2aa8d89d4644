"""The energy of small molecules from the places of their atoms.

Seen in the PyTorch forum's "Storing learning data in tensors, data loading optimization" (66896).

cause: each molecule is a .pt file of its own, opened and unpickled for every item of every epoch
accept: data-wait @line
"""

import torch
from case import Items, Module, Run
from torch import nn
from torch.utils.data import DataLoader

STEPS, ATOMS, ELEMENTS = 200, 18, 6


class Files(Items):
    def __getitem__(self, index):
        return torch.load(self.items[index])  # cause


class Energies(Module):
    def __init__(self):
        super().__init__()
        self.atoms, self.spread = nn.Embedding(ELEMENTS, 48), nn.Linear(16, 48)
        self.mix = nn.Sequential(nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 1))
        self.register_buffer("centres", torch.linspace(0, 5, 16))

    def loss(self, batch):
        atoms = self.atoms(batch["elements"])
        distances = torch.cdist(batch["places"], batch["places"])
        weights = self.spread(torch.exp(-(distances.unsqueeze(-1) - self.centres).square()))
        around = torch.einsum("bijc,bjc->bic", weights, atoms)
        energy = self.mix(torch.cat([atoms, around], -1)).sum((1, 2))
        return nn.functional.mse_loss(energy, batch["energy"])


def main(run: Run) -> None:
    paths = [run.root / f"{number:05}.pt" for number in range(480)]
    for path in paths:
        places, elements = torch.rand(ATOMS, 3) * 4, torch.randint(ELEMENTS, (ATOMS,))
        torch.save({"places": places, "elements": elements, "energy": torch.randn(())}, path)
    # Fixed: read once, kept, as they are small.
    files = [torch.load(path) for path in paths] if run.fixed else Files(paths)
    run.fit(Energies(), DataLoader(files, batch_size=16, shuffle=True))
