"""What is the paper about? A graph network over papers that cite each other.

cause: the model multiplies by the citations as a dense matrix, of which all but a few entries a
    row are zero
right: names the product with the dense matrix in forward; its change is a sparse matrix (or
    adding up along the list of edges)
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 150
PAPERS, LINKS, FEATURES, WIDTH, FIELDS, BATCH = 1500, 4500, 256, 64, 8, 256


class Papers(Dataset):
    """The papers whose field is known: an item is the number of one."""

    def __len__(self):
        return PAPERS

    def __getitem__(self, index):
        return index


def linked(fixed):
    """Return the normalized matrix of who cites whom, as the model is to use it."""
    ends = torch.randint(0, PAPERS, (2, LINKS))
    matrix = torch.eye(PAPERS)
    matrix[ends[0], ends[1]] = 1
    matrix[ends[1], ends[0]] = 1
    scale = matrix.sum(dim=1).rsqrt()
    matrix = scale[:, None] * matrix * scale[None]
    return matrix.to_sparse().coalesce() if fixed else matrix


class Layer(nn.Module):
    def __init__(self, inside, outside) -> None:
        super().__init__()
        self.linear = nn.Linear(inside, outside)

    def forward(self, links, x):
        return torch.mm(links, self.linear(x))  # cause


class Network(L.LightningModule):
    def __init__(self, fixed) -> None:
        super().__init__()
        fields = torch.randint(0, FIELDS, (PAPERS,))
        words = torch.randn(PAPERS, FEATURES)
        words[torch.arange(PAPERS), fields] += 2
        self.register_buffer("fields", fields)
        self.register_buffer("words", words)
        self.register_buffer("links", linked(fixed))
        self.first = Layer(FEATURES, WIDTH)
        self.second = Layer(WIDTH, WIDTH)
        self.out = nn.Sequential(
            nn.Linear(WIDTH, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, FIELDS)
        )

    def forward(self):
        hidden = self.first(self.links, self.words).relu()
        return self.out(self.second(self.links, hidden).relu())

    def training_step(self, known, batch_idx):
        loss = nn.functional.cross_entropy(self()[known], self.fields[known])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, fused=True)


def main(run: Run) -> None:
    data = DataLoader(Papers(), batch_size=BATCH, shuffle=True, drop_last=True)
    trainer = L.Trainer(callbacks=run.callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Network(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
