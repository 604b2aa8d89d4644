"""A graph network by gather and index_add on one graph with many edges.

accept: none
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 600

NODES, EDGES, WIDTH = 1500, 9000, 64


class Graphs(Dataset):
    def __init__(self, count: int) -> None:
        self.edges = torch.randint(NODES, (2, EDGES))
        self.nodes = torch.randn(count, NODES, WIDTH)
        self.target = torch.randint(7, (count, NODES))

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index: int):
        return self.nodes[index], self.edges, self.target[index]


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.message, self.update = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, edges):
        source, sink = edges
        received = torch.zeros_like(x).index_add_(0, sink, self.message(x)[source])
        return x + self.update(torch.cat([x, received], 1)).relu()


class GraphNet(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(3)])
        self.head = nn.Linear(WIDTH, 7)

    def training_step(self, batch, batch_idx):
        x, edges, y = batch
        for layer in self.layers:
            x = layer(x, edges)
        loss = nn.functional.cross_entropy(self.head(x), y)
        self.log("train_loss", loss, batch_size=1)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    data = DataLoader(Graphs(120), batch_size=None, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(GraphNet(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
