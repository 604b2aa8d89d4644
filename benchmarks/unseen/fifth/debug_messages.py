"""The next value of a river's level: a GRU with messages left in from the search for a mistake.

seen in: ccpem/affinity-vae pull request 248, "Reduce logging", EugenHotaj/pytorch-generative
issue 10, and keras-team/keras issue 102 (what is printed for every batch slows training)

cause: messages with whole tensors are put together in every step, though no one sees them
right: names the formatting of tensors or the messages, or points at a marked line first; its
    change takes them out of the step, or lets them be made seldom
"""

import logging

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 260
PAST, GAUGES = 36, 10
log = logging.getLogger("river")


class River(L.LightningModule):
    def __init__(self, quiet: bool) -> None:
        super().__init__()
        self.quiet = quiet
        self.gru = nn.GRU(GAUGES, 64, batch_first=True)
        self.head = nn.Linear(64, GAUGES)

    def training_step(self, batch, batch_idx):
        past, level = batch
        states, _ = self.gru(past)
        guess = self.head(states[:, -1])
        loss = nn.functional.mse_loss(guess, level)
        if not self.quiet:
            log.debug(f"past {past.shape}: {past}")  # cause
            log.debug(f"guess {guess.shape}: {guess}, true {level}")  # cause
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3, fused=True)


def main(run: Run) -> None:
    levels = TensorDataset(torch.randn(3000, PAST, GAUGES), torch.randn(3000, GAUGES))
    data = DataLoader(levels, batch_size=48, shuffle=True, drop_last=True)
    L.Trainer(callbacks=run.callbacks, **run.trainer).fit(River(run.fixed), data)


if __name__ == "__main__":
    main(arguments(STEPS))
