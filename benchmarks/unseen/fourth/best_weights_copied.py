"""A denoiser of seismograms, and a callback that keeps the best weights so far.

seen in: WenjieDu/PyPOTS issue 667, "Issue with saving the best model state", and
asappresearch/flambe pull request 168: `deepcopy(model.state_dict())` whenever there is a new best

cause: as long as the smoothed loss falls, all weights are copied after every batch
accept: slow-callback @line
"""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 180
SAMPLES, WIDTH = 512, 1536


class KeepBest(L.Callback):
    def __init__(self, each_batch: bool) -> None:
        self.each_batch, self.smooth, self.best, self.weights = each_batch, None, None, None

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        loss = float(outputs["loss"])
        self.smooth = loss if self.smooth is None else 0.97 * self.smooth + 0.03 * loss
        if self.each_batch:
            self.keep(pl_module)  # cause

    def on_train_epoch_end(self, trainer, pl_module):
        self.keep(pl_module)

    def keep(self, module) -> None:
        if self.best is None or self.smooth < self.best:
            self.best = self.smooth
            self.weights = copy.deepcopy(module.state_dict())  # cause


class Denoiser(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(SAMPLES, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, WIDTH),
            nn.GELU(),
            nn.Linear(WIDTH, SAMPLES),
        )

    def training_step(self, batch, batch_idx):
        noisy, clean = batch
        loss = nn.functional.mse_loss(self.net(noisy), clean)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def main(run: Run) -> None:
    starts = torch.rand(800, 1) * 6
    clean = torch.sin(starts + torch.linspace(0, 40, SAMPLES))
    seen = TensorDataset(clean + 0.3 * torch.randn(800, SAMPLES), clean)
    data = DataLoader(seen, batch_size=8, shuffle=True)
    callbacks = [KeepBest(each_batch=not run.fixed), *run.callbacks]
    trainer = L.Trainer(callbacks=callbacks, enable_checkpointing=False, **run.trainer)
    trainer.fit(Denoiser(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
