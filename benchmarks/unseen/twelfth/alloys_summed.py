"""How hard is the alloy? Message passing over the neighbours of atoms.

cause: the messages of the edges are summed up at the atoms by multiplication with a one-hot matrix
    of edges by atoms, made anew in each layer, nearly all of which is noughts
right: names Layer.forward, the one-hot or the matrix product at a marked line; its change sums with
    index_add, scatter or a sparse matrix
"""

import lightning as L
import torch
import torch.nn.functional as F
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 300
CRYSTALS, ATOMS, NEAR, KINDS, WIDTH, BATCH = 2000, 20, 6, 30, 64, 12


class Crystals(Dataset):
    def __init__(self):
        self.kinds = torch.randint(0, KINDS, (CRYSTALS, ATOMS))
        self.near = torch.randint(0, ATOMS, (CRYSTALS, ATOMS, NEAR))
        self.apart = torch.rand(CRYSTALS, ATOMS, NEAR) * 3 + 1
        self.hardness = self.kinds.float().std(dim=1) / 8

    def __len__(self):
        return CRYSTALS

    def __getitem__(self, i):
        return {
            "kinds": self.kinds[i],
            "source": self.near[i].flatten(),
            "target": torch.arange(ATOMS).repeat_interleave(NEAR),
            "apart": self.apart[i].flatten(),
            "hardness": self.hardness[i],
        }


def as_one_graph(samples):
    """Puts the crystals beside each other as one graph without edges between them."""
    first = torch.arange(len(samples))[:, None] * ATOMS
    graph = {key: torch.stack([sample[key] for sample in samples]) for key in samples[0]}
    graph["source"] = (graph["source"] + first).flatten()
    graph["target"] = (graph["target"] + first).flatten()
    graph["kinds"], graph["apart"] = graph["kinds"].flatten(), graph["apart"].flatten()
    return graph


class Layer(nn.Module):
    def __init__(self, add):
        super().__init__()
        self.add = add
        self.message = nn.Sequential(
            nn.Linear(2 * WIDTH + 16, WIDTH), nn.SiLU(), nn.Linear(WIDTH, WIDTH)
        )
        self.update = nn.GRUCell(WIDTH, WIDTH)

    def forward(self, atoms, source, target, radial):
        sent = self.message(torch.cat([atoms[source], atoms[target], radial], dim=1))
        if self.add:
            summed = torch.zeros_like(atoms).index_add(0, target, sent)
        else:
            lies_at = F.one_hot(target, len(atoms)).to(sent.dtype)  # cause
            summed = lies_at.T @ sent  # cause
        return self.update(summed, atoms)


class Hardness(L.LightningModule):
    def __init__(self, add):
        super().__init__()
        self.embed = nn.Embedding(KINDS, WIDTH)
        self.layers = nn.ModuleList(Layer(add) for _ in range(3))
        self.out = nn.Linear(WIDTH, 1)
        self.register_buffer("centres", torch.linspace(1, 4, 16))

    def training_step(self, graph, batch_idx):
        atoms = self.embed(graph["kinds"])
        radial = torch.exp(-4 * (graph["apart"][:, None] - self.centres) ** 2)
        for layer in self.layers:
            atoms = layer(atoms, graph["source"], graph["target"], radial)
        guessed = self.out(atoms.view(-1, ATOMS, WIDTH).mean(dim=1)).squeeze(1)
        loss = F.mse_loss(guessed, graph["hardness"])
        self.log("train_loss", loss, batch_size=len(guessed))
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    data = DataLoader(
        Crystals(), batch_size=BATCH, shuffle=True, num_workers=1, collate_fn=as_one_graph
    )
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Hardness(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
