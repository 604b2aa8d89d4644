"""Federated learning with a proximal term (FedProx), one client simulated after another.

cause: the round's global model is copied before every local step, where once a round is meant
accept: slow-callback @line
"""

import copy

import lightning as L
import torch
from case import Run, arguments
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
LOCAL_STEPS, CLIENTS = 25, 8


class GlobalModel(L.Callback):
    """Gives the client the weights that its round began with."""

    def __init__(self, once_a_round: bool) -> None:
        self.once_a_round = once_a_round

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if self.once_a_round and trainer.global_step % LOCAL_STEPS:
            return
        reference = copy.deepcopy(pl_module.net)  # cause
        pl_module.reference = [p.detach() for p in reference.parameters()]


class Client(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(561, 640), nn.ReLU(), nn.Linear(640, 640), nn.ReLU(), nn.Linear(640, 6)
        )
        self.reference: list[torch.Tensor] = []

    def proximal(self):
        moved = zip(self.net.parameters(), self.reference, strict=True)
        return sum((p - start).pow(2).sum() for p, start in moved)

    def training_step(self, batch, batch_idx):
        signals, activity = batch
        loss = nn.functional.cross_entropy(self.net(signals), activity)
        self.log("train_loss", loss)
        return loss + 0.005 * self.proximal()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def main(run: Run) -> None:
    count = CLIENTS * LOCAL_STEPS * 32
    phones = TensorDataset(torch.randn(count, 561), torch.randint(6, (count,)))
    data = DataLoader(phones, batch_size=32)
    callbacks = [GlobalModel(once_a_round=run.fixed), *run.callbacks]
    L.Trainer(callbacks=callbacks, **run.trainer).fit(Client(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
