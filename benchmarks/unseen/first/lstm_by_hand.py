"""Electricity load forecast with an LSTM written by hand, "to see what it does".

cause: a Python loop over 60 time steps with a dozen small operations each, where nn.LSTM does it
accept: host-bound small-kernels
"""

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 400
WINDOW, FEATURES, HIDDEN = 60, 8, 48


class Cell(nn.Module):
    """One step of an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ModuleDict({n: nn.Linear(FEATURES + HIDDEN, HIDDEN) for n in "ifog"})

    def forward(self, x, hidden, memory):
        both = torch.cat([x, hidden], dim=1)  # cause
        take = torch.sigmoid(self.gates["i"](both))  # cause
        keep = torch.sigmoid(self.gates["f"](both))  # cause
        show = torch.sigmoid(self.gates["o"](both))  # cause
        memory = keep * memory + take * torch.tanh(self.gates["g"](both))  # cause
        return show * torch.tanh(memory), memory  # cause


class Forecast(L.LightningModule):
    def __init__(self, by_hand: bool) -> None:
        super().__init__()
        self.by_hand = by_hand
        if by_hand:
            self.cell = Cell()
        else:
            self.lstm = nn.LSTM(FEATURES, HIDDEN, batch_first=True)
        self.head = nn.Sequential(nn.Linear(HIDDEN, 256), nn.ReLU(), nn.Linear(256, 24))

    def encode(self, x):
        if not self.by_hand:
            return self.lstm(x)[0]
        hidden = memory = x.new_zeros(len(x), HIDDEN)
        states = []
        for t in range(x.shape[1]):  # cause
            hidden, memory = self.cell(x[:, t], hidden, memory)  # cause
            states.append(hidden)  # cause
        return torch.stack(states, dim=1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.l1_loss(self.head(self.encode(x)), y)  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    windows = TensorDataset(torch.randn(1280, WINDOW, FEATURES), torch.randn(1280, WINDOW, 24))
    data = DataLoader(windows, batch_size=24, shuffle=True)
    model = Forecast(by_hand=not run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
