"""A PINN-like regression on simulator output; numpy gave doubles, and the model was made to fit.

cause: the whole model and its data are float64
accept: low-precision-unused
"""

import lightning as L
import numpy as np
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 330


class Surrogate(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(24, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 512),
            nn.SiLU(), nn.Linear(512, 6),
        )  # fmt: skip

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    rng = np.random.default_rng(0)
    inputs = rng.uniform(size=(10_000, 24))
    outputs = np.sin(inputs[:, :6] * 3.0)
    x, y = torch.from_numpy(inputs), torch.from_numpy(outputs)
    model = Surrogate()
    if run.fixed:
        x, y = x.float(), y.float()
    else:
        model = model.double()  # cause
    data = DataLoader(TensorDataset(x, y), batch_size=256, shuffle=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
