"""How much energy does the molecule hold? A graph network over batches of small graphs.

seen in: JuliaGraphs/GraphNeuralNetworks.jl pull request 100, "Fix for quadratic batching",
pyg-team/pytorch_geometric issue 572, "Can Batch.from_data_list be made faster?", and
ulissigroup/amptorch issue 12, "torch.cat() bottleneck"

cause: collate appends one graph after the other with torch.cat, which copies all before it again
right: names the collate function (or the loader's making of batches), or a marked line; its change
    takes that work out of the step (one torch.cat at the end, or worker processes)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader

STEPS = 860
COUNT, FEATURES, WIDTH = 2000, 64, 48


def molecules():
    made = []
    for _ in range(COUNT):
        atoms = int(torch.randint(8, 16, ()))
        bonds = torch.randint(atoms, (2, 2 * atoms))
        made.append((torch.randn(atoms, FEATURES), bonds, torch.randn(1)))
    return made


def joined_one_by_one(batch):
    atoms, bonds = torch.empty(0, FEATURES), torch.empty(2, 0, dtype=torch.long)
    owners, energies = torch.empty(0, dtype=torch.long), torch.empty(0)
    for new_atoms, new_bonds, energy in batch:
        bonds = torch.cat([bonds, new_bonds + len(atoms)], dim=1)  # cause
        owners = torch.cat([owners, torch.full((len(new_atoms),), len(energies))])  # cause
        atoms = torch.cat([atoms, new_atoms])  # cause
        energies = torch.cat([energies, energy])  # cause
    return atoms, bonds, owners, energies


def joined_at_the_end(batch):
    atoms, bonds, energies = zip(*batch, strict=True)
    sizes = torch.tensor([len(one) for one in atoms])
    shifts = (sizes.cumsum(0) - sizes).repeat_interleave(
        torch.tensor([one.shape[1] for one in bonds])
    )
    owners = torch.arange(len(atoms)).repeat_interleave(sizes)
    return torch.cat(atoms), torch.cat(bonds, dim=1) + shifts, owners, torch.cat(energies)


class Energies(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, WIDTH)
        self.messages = nn.ModuleList(nn.Linear(2 * WIDTH, WIDTH) for _ in range(2))
        self.head = nn.Linear(WIDTH, 1)

    def training_step(self, batch, batch_idx):
        atoms, (left, right), owners, energies = batch
        states = self.first(atoms).relu()
        for message in self.messages:
            sent = message(torch.cat([states[left], states[right]], dim=1)).relu()
            states = states + torch.zeros_like(states).index_add(0, right, sent)
        found = torch.zeros(len(energies), 1).index_add(0, owners, self.head(states))
        loss = nn.functional.l1_loss(found[:, 0], energies)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    collate = joined_at_the_end if run.fixed else joined_one_by_one
    data = DataLoader(molecules(), batch_size=192, shuffle=True, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Energies(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
