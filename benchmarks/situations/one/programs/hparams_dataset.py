"""Scores for travel routes; the module is told its training set, to take means and sizes from it.

source: Lightning-AI/pytorch-lightning #19785 "Passing a dataloader to save_hyperparams hangs
    trainer.fit" (also ai4co/rl4co #261, microsoft/hi-ml #437)
cause: save_hyperparameters() takes the data set among the hyperparameters: it is copied, written as
    text to hparams.yaml before the first step and put into each checkpoint
right: says that the start of the fit (or the logger's hyperparameters, hparams.yaml) costs the time,
    with the advice to leave the data set out: save_hyperparameters(ignore=["routes"])
"""

import torch
from case import Module, Run, mlp
from torch import nn
from torch.utils.data import DataLoader

STEPS = 600


class Tours(Module):
    def __init__(self, routes, width=128, fixed=False):
        super().__init__()
        self.save_hyperparameters(ignore=["routes"] if fixed else [])  # cause
        rows = torch.tensor([route["legs"] for route in routes])
        self.register_buffer("mean", rows.mean(0))
        self.net = mlp(len(self.mean), width, width, 1)

    def loss(self, batch):
        legs, cost = batch
        return nn.functional.mse_loss(self.net(legs - self.mean).squeeze(1), cost)


def together(routes):
    legs = torch.tensor([route["legs"] for route in routes])
    return legs, torch.tensor([route["cost"] for route in routes])


def main(run: Run) -> None:
    legs = torch.rand(1500, 20)
    routes = [{"legs": row.tolist(), "cost": float(row.sum())} for row in legs]
    data = DataLoader(routes, batch_size=64, shuffle=True, drop_last=True, collate_fn=together)
    run.fit(Tours(routes, fixed=run.fixed), data)
