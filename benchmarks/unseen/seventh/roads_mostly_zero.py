"""How fast will the cars go in a quarter of an hour? Sensors on a road network, a graph network.

seen in: tkipf/gcn issue 105, "why need sparse block diagonal adjacency matrices at all" ("the
computational complexity is much higher"), tkipf/pygcn issue 14, and ChandlerBang/Pro-GNN issue 24
(the adjacency that torch.spmm gets is dense)

cause: each graph convolution multiplies by the whole adjacency matrix, of which all but a few in a
    thousand are zeros
right: says that the products with the adjacency matrix take the time, or points at the marked line
    first; its change makes the matrix sparse (or gathers and adds the neighbours)
"""

import warnings

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
SENSORS, BATCH, PAST, AHEAD, WIDTH = 900, 6, 12, 3, 24


def roads():
    """Return the normalized adjacency of sensors tied to those near, [sensors, sensors]."""
    places = torch.rand(SENSORS, 2)
    near = torch.cdist(places, places).topk(5, largest=False).indices
    adjacency = torch.zeros(SENSORS, SENSORS).scatter_(1, near, 1.0)
    adjacency = torch.maximum(adjacency, adjacency.mT)
    root = adjacency.sum(dim=1).rsqrt()
    return root[:, None] * adjacency * root


class Traffic(L.LightningModule):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        adjacency = roads()
        self.register_buffer("adjacency", adjacency.to_sparse_csr() if sparse else adjacency)
        self.first = nn.Linear(PAST, WIDTH)
        self.convolutions = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(3))
        self.head = nn.Sequential(
            nn.Linear(WIDTH, 8 * WIDTH), nn.GELU(), nn.Linear(8 * WIDTH, AHEAD)
        )

    def forward(self, speeds):
        states = self.first(speeds)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            around = self.adjacency @ convolution(states).flatten(1)  # cause
            states = states + norm(around.view_as(states)).relu()
        return self.head(states)

    def training_step(self, batch, batch_idx):
        past, ahead = (speeds.movedim(0, 1).contiguous() for speeds in batch)
        loss = nn.functional.l1_loss(self(past), ahead)
        self.log("train_mae", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3, fused=True)


def main(run: Run) -> None:
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    hours = TensorDataset(torch.randn(1800, SENSORS, PAST), torch.randn(1800, SENSORS, AHEAD))
    data = DataLoader(hours, batch_size=BATCH, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Traffic(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
