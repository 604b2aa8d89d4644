"""Power prices of tomorrow by a WaveNet; each loss goes to the tracking server at once.

seen in: a guise of: slow logger

cause: the logger sends every record by itself and waits for the server's answer, and the module
    hands it one at each step, past self.log and its interval of 50
right: says that the logger (its log_metrics) is the cost, or points at a marked line first; its
    change logs more seldom, or gathers records and sends many at once
"""

import json
import socket
import threading
import time

import lightning as L
import torch
from case import Run, arguments
from lightning.pytorch.loggers.logger import Logger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 600
HOURS, SERIES, ANSWER_S = 96, 6, 0.008


def served(connection: socket.socket) -> None:
    """Answer each line as a server far away does: later."""
    for _ in connection.makefile("rb"):
        time.sleep(ANSWER_S)
        connection.sendall(b"ok\n")


class TrackingServer(Logger):
    name, version = "prices", "0"

    def __init__(self, at_a_time: int) -> None:
        super().__init__()
        self.at_a_time, self.records = at_a_time, []
        self.connection, theirs = socket.socketpair()
        self.answers = self.connection.makefile("rb")
        threading.Thread(target=served, args=(theirs,), daemon=True).start()

    def log_hyperparams(self, *_, **__):
        pass

    def log_metrics(self, metrics, step=None):
        self.records.append({"step": step, **metrics})
        if len(self.records) >= self.at_a_time:
            self.save()  # cause

    def save(self):
        if self.records:
            self.connection.sendall(json.dumps(self.records).encode() + b"\n")
            self.answers.readline()  # cause
            self.records.clear()

    def finalize(self, status):
        self.save()


class Prices(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Conv1d(SERIES, 32, 1)
        self.filters = nn.ModuleList(
            nn.Conv1d(32, 64, 2, dilation=2**depth, padding=2**depth) for depth in range(6)
        )
        self.told = nn.Conv1d(32, 24, 1)

    def training_step(self, batch, batch_idx):
        past, day = batch
        state = self.read(past)
        for conv in self.filters:
            signal, gate = conv(state)[..., :HOURS].chunk(2, dim=1)
            state = state + torch.tanh(signal) * torch.sigmoid(gate)
        return nn.functional.smooth_l1_loss(self.told(state)[..., -1], day)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        rate = self.optimizers().param_groups[0]["lr"]
        self.logger.log_metrics({"loss": outputs["loss"].item(), "lr": rate}, batch_idx)  # cause

    def configure_optimizers(self):
        optimizer = torch.optim.RAdam(self.parameters(), lr=1e-3, foreach=True)
        return [optimizer], [torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 50)]


def main(run: Run) -> None:
    days = TensorDataset(torch.randn(2400, SERIES, HOURS), torch.randn(2400, 24))
    data = DataLoader(days, batch_size=16, shuffle=True)
    tracked = TrackingServer(at_a_time=50 if run.fixed else 1)
    trainer = L.Trainer(
        callbacks=run.callbacks, logger=tracked, enable_checkpointing=False, **run.trainer
    )
    trainer.fit(Prices(), data)


if __name__ == "__main__":
    main(arguments(STEPS))
