"""A message passing network over 1,500 molecules, whose graphs are built anew for each batch."""

import numpy as np
from chemprop import data, models, nn
from lightning.pytorch import Trainer


def fit(options):
    pick = np.random.default_rng(1)
    ends = ["O", "N", "c1ccccc1", "C(=O)O", "Cl", "C#N"]
    texts = [
        "C" * pick.integers(1, 12) + f"C({pick.choice(ends)})" + "C" * pick.integers(1, 9)
        for _ in range(1500)
    ]
    points = [data.MoleculeDatapoint.from_smi(text, np.array([len(text) / 10])) for text in texts]
    loader = data.build_dataloader(data.MoleculeDataset(points), batch_size=32)
    model = models.MPNN(nn.BondMessagePassing(), nn.MeanAggregation(), nn.RegressionFFN())
    Trainer(max_epochs=3, enable_model_summary=False, **options).fit(model, loader)
