"""Graph convolutions over 2,000 small graphs, batched by `LightningDataset`."""

import torch
from lightning.pytorch import Trainer
from packages.supervised import Trained
from torch_geometric.data import Data
from torch_geometric.data.lightning import LightningDataset
from torch_geometric.nn import GCN, global_mean_pool


class Graphs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gcn = GCN(in_channels=8, hidden_channels=32, num_layers=2, out_channels=2)

    def forward(self, batch):
        scores = global_mean_pool(self.gcn(batch.x, batch.edge_index), batch.batch)
        return torch.nn.functional.cross_entropy(scores, batch.y)


def fit(options):
    def graph():
        edges, right = torch.randint(20, (2, 60)), torch.randint(2, (1,))
        return Data(x=torch.randn(20, 8), edge_index=edges, y=right)

    data = LightningDataset([graph() for _ in range(2000)], batch_size=32)
    Trainer(max_epochs=4, enable_model_summary=False, **options).fit(Trained(Graphs()), data)
