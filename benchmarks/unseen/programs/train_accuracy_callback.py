"""A CNN; a callback plots how well the training batch is fitted after the update.

cause: the callback runs the network once more in eval mode on every training batch, for one scalar
accept: slow-callback
"""

import lightning as L
import torch
from case import Run, Supervised, convs, shuffled
from torch import nn

STEPS = 170


class FitAfterUpdate(L.Callback):
    def __init__(self, every):
        self.every = every

    @torch.no_grad()
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx % self.every:
            return
        x, y = batch
        pl_module.eval()
        scores = pl_module.net(x)  # cause
        pl_module.train()
        pl_module.log("fit_after_update", (scores.argmax(1) == y).float().mean())


def main(run: Run) -> None:
    net = convs((3, 24, 3, 2), (24, 48, 3, 1), (48, 64, 3, 2), norm=True)
    data = shuffled(40, torch.rand(1600, 3, 40, 40), torch.randint(20, (1600,)))
    callback = FitAfterUpdate(every=20 if run.fixed else 1)
    run.fit(Supervised(net, nn.Linear(64, 20)), data, callbacks=[callback])
