"""GraphSAGE over a citation graph: two hops of sampled neighbours for each batch of nodes.

cause: neighbours are drawn node by node in Python from a networkx graph
accept: data-wait @line
"""

import random

import lightning as L
import networkx as nx
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader

STEPS = 700
NODES, FANOUT, CLASSES = 4000, 8, 12


class GraphSampler:
    """Draws neighbours with replacement."""

    def __init__(self, graph: nx.Graph) -> None:
        self.graph = graph

    def __call__(self, nodes: list[int]) -> list[int]:
        drawn = []
        for node in nodes:  # cause
            neighbours = list(self.graph.neighbors(node))  # cause
            drawn += random.choices(neighbours, k=FANOUT)  # cause
        return drawn


class ArraySampler:
    """Does it for all nodes at once, from the neighbours in one array."""

    def __init__(self, graph: nx.Graph) -> None:
        self.degree = np.array([graph.degree[node] for node in range(NODES)])
        self.start = np.concatenate([[0], np.cumsum(self.degree)])[:-1]
        self.all = np.concatenate([list(graph.neighbors(node)) for node in range(NODES)])

    def __call__(self, nodes) -> np.ndarray:
        nodes = np.asarray(nodes)
        drawn = np.random.random((len(nodes), FANOUT)) * self.degree[nodes, None]
        return self.all[self.start[nodes, None] + drawn.astype(int)].ravel()


class Sage(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2 * 96, 128)
        self.second = nn.Linear(2 * 128, CLASSES)

    def layer(self, linear, own, neighbours):
        return linear(torch.cat([own, neighbours.unflatten(0, (-1, FANOUT)).mean(1)], dim=1))

    def training_step(self, batch, batch_idx):
        zero, one, two, labels = batch
        one_hidden = self.layer(self.first, one, two).relu()
        zero_hidden = self.layer(self.first, zero, one).relu()
        scores = self.layer(self.second, zero_hidden, one_hidden)
        loss = nn.functional.cross_entropy(scores, labels)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=5e-3)


def main(run: Run) -> None:
    graph = nx.barabasi_albert_graph(NODES, 8, seed=0)
    sample = ArraySampler(graph) if run.fixed else GraphSampler(graph)
    features, labels = torch.randn(NODES, 96), torch.randint(CLASSES, (NODES,))

    def collate(nodes):
        one = sample(nodes)  # cause
        two = sample(one)  # cause
        return features[nodes], features[one], features[two], labels[nodes]

    data = DataLoader(range(NODES), batch_size=96, shuffle=True, collate_fn=collate)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(Sage(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
