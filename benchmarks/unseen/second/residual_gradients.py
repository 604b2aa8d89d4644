"""Flow around a cylinder by a physics-informed network.

cause: autograd.grad is called anew for each derivative, where one call gives x, y and t together
accept: @line
"""

from itertools import pairwise

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 450
VISCOSITY = 0.01


def gradient(y, points):
    return torch.autograd.grad(y.sum(), points, create_graph=True)[0]  # cause


class Flow(L.LightningModule):
    def __init__(self, one_call: bool) -> None:
        super().__init__()
        self.one_call = one_call
        widths = [3, 64, 64, 64, 64]
        layers = [
            part
            for inside, outside in pairwise(widths)
            for part in (nn.Linear(inside, outside), nn.Tanh())
        ]
        self.net = nn.Sequential(*layers, nn.Linear(64, 3))

    def first(self, y, points):
        if self.one_call:
            return gradient(y, points).unbind(1)
        y_x = gradient(y, points)[:, 0]  # cause
        y_y = gradient(y, points)[:, 1]  # cause
        y_t = gradient(y, points)[:, 2]  # cause
        return y_x, y_y, y_t

    def momentum(self, w, pressure_slope, flow, points):
        w_x, w_y, w_t = self.first(w, points)  # cause
        w_xx = gradient(w_x, points)[:, 0]
        w_yy = gradient(w_y, points)[:, 1]
        carried = flow[:, 0] * w_x + flow[:, 1] * w_y
        return w_t + carried + pressure_slope - VISCOSITY * (w_xx + w_yy), (w_x, w_y)

    def training_step(self, batch, batch_idx):
        points, measured = batch
        points.requires_grad_()
        flow = self.net(points)
        p_x, p_y, _ = self.first(flow[:, 2], points)  # cause
        along, (u_x, _) = self.momentum(flow[:, 0], p_x, flow, points)  # cause
        across, (_, v_y) = self.momentum(flow[:, 1], p_y, flow, points)  # cause
        physics = along.pow(2).mean() + across.pow(2).mean() + (u_x + v_y).pow(2).mean()
        loss = physics + nn.functional.mse_loss(flow[:, :2], measured)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main(run: Run) -> None:
    points = TensorDataset(torch.rand(25_600, 3), torch.rand(25_600, 2))
    data = DataLoader(points, batch_size=256, shuffle=True)
    model = Flow(one_call=run.fixed)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(model, data)


if __name__ == "__main__":
    main(arguments(STEPS))
