"""A graph network by gather and index_add on one graph with many edges."""

import torch
from case import Module, Run
from torch import nn
from torch.utils.data import DataLoader

STEPS, NODES, EDGES, WIDTH = 600, 1500, 9000, 64


class Graphs:
    def __init__(self, count):
        self.edges = torch.randint(NODES, (2, EDGES))
        self.nodes = torch.randn(count, NODES, WIDTH)
        self.target = torch.randint(7, (count, NODES))

    def __len__(self):
        return len(self.nodes)

    def __getitem__(self, index):
        return self.nodes[index], self.edges, self.target[index]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.message, self.update = nn.Linear(WIDTH, WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, edges):
        source, sink = edges
        received = torch.zeros_like(x).index_add_(0, sink, self.message(x)[source])
        return x + self.update(torch.cat([x, received], 1)).relu()


class GraphNet(Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList([Layer() for _ in range(3)]), nn.Linear(WIDTH, 7)

    def loss(self, batch):
        x, edges, y = batch
        for layer in self.layers:
            x = layer(x, edges)
        return nn.functional.cross_entropy(self.head(x), y)


def main(run: Run) -> None:
    run.fit(GraphNet(), DataLoader(Graphs(120), batch_size=None, shuffle=True))
