"""How toxic is the molecule? A graph network whose atoms know their place by eigenvectors.

seen in: rampasek/GraphGPS issue 7, "Saving LapPE instead of precomputing every run", and
pyg-team/pytorch_geometric issues 7094 and 4663 (an expensive transform belongs in pre_transform)

cause: the eigenvectors of each molecule are computed anew every time that it is asked for
right: names the fetching of items in the loader, or the lines that compute the eigenvectors; its
    change takes that work out of the step (computed once and kept, or worker processes)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 200
ATOMS, KINDS, PLACES, WIDTH = 32, 12, 8, 64


def eigenvectors(bonds):
    scale = bonds.sum(dim=1).clamp(min=1).rsqrt()
    laplacian = torch.eye(ATOMS) - scale[:, None] * bonds * scale
    return torch.linalg.eigh(laplacian)[1][:, 1 : PLACES + 1]  # cause


class Molecules(Dataset):
    def __init__(self, kinds, bonds, toxic, before: bool) -> None:
        self.kinds, self.bonds, self.toxic = kinds, bonds, toxic
        self.places = [eigenvectors(one) for one in bonds] if before else None

    def __len__(self) -> int:
        return len(self.kinds)

    def __getitem__(self, index):
        bonds = self.bonds[index]
        places = self.places[index] if self.places else eigenvectors(bonds)  # cause
        return self.kinds[index], bonds, places, self.toxic[index]


class Toxicity(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.kinds, self.places = nn.Embedding(KINDS, WIDTH), nn.Linear(PLACES, WIDTH)
        self.own = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.others = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        kinds, bonds, places, toxic = batch
        signs = torch.randint(2, (len(kinds), 1, PLACES)).mul(2).sub(1)
        atoms = self.kinds(kinds) + self.places(places * signs)
        for own, others in zip(self.own, self.others, strict=True):
            atoms = atoms + (own(atoms) + others(bonds @ atoms)).relu()
        scores = self.head(atoms.mean(dim=1)).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, toxic)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    count = 600
    upper = (torch.rand(count, ATOMS, ATOMS) < 0.08).float().triu(1)
    kinds, toxic = torch.randint(KINDS, (count, ATOMS)), torch.randint(2, (count,)).float()
    molecules = Molecules(kinds, upper + upper.mT, toxic, run.fixed)
    data = DataLoader(molecules, batch_size=32, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Toxicity(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
