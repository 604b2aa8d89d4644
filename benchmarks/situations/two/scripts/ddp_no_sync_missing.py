"""Gradients of several batches are added up before each update, by hand, on two processes.

Reported in Lightning-AI/pytorch-lightning issue 4092, "Avoid unnecessary DDP synchronization when
gradient_accumulation_steps > 1".

cause: with manual optimization nothing tells DDP which batch is the last of eight, so that the
    gradients of all parameters are reduced across the processes after each of them
right: names the gradients' reduction (communication in backward) as most of a step, and that only
    one batch of eight needs it; the change is toggle_model(sync_grad=...) or no_sync()
FIX=1 mends it.
"""

import clock
import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader, TensorDataset

EVERY, BATCHES = 8, 96


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        layers = torch.nn.Linear(128, 3072), torch.nn.ReLU(), torch.nn.Linear(3072, 3072)
        self.net = torch.nn.Sequential(*layers, torch.nn.ReLU(), torch.nn.Linear(3072, 128))

    def training_step(self, batch, index):
        optimizer, last = self.optimizers(), (index + 1) % EVERY == 0
        with optimizer.toggle_model(sync_grad=last or not clock.FIX):  # cause
            loss = (self.net(batch[0]) - batch[0].flip(1)).square().mean() / EVERY
            self.manual_backward(loss)  # cause
        if last:
            optimizer.step()
            optimizer.zero_grad()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-2)


if __name__ == "__main__":
    made, times = clock.trainer(
        max_epochs=1, devices=2, strategy="ddp", enable_checkpointing=False, logger=False
    )
    data = DataLoader(TensorDataset(torch.randn(2 * BATCHES * 4, 128)), 4)
    model = Net()
    clock.timed(made, times, lambda: made.fit(model, data))
