"""Run by test_two_ranks.py, twice at once: a rank of two, each as on a machine of its own.

`python two_ranks.py FOLDER FAULT CALLBACK`: in the middle of training something befalls rank 1.
"""

import os
import signal
import socket
import sys
import threading
from datetime import timedelta

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader

RANK = int(os.environ["NODE_RANK"])


class Model(BoringModel):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault if RANK == 1 else ""

    def on_train_start(self):
        # Not of the group from its beginning: a process may start late.
        torch.distributed.distributed_c10d._set_pg_timeout(timedelta(seconds=4))

    def training_step(self, batch, batch_idx):
        if batch_idx == 5:
            if self.fault == "is killed":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.fault == "raises":
                raise ValueError("planted")
            if self.fault == "hangs":
                threading.Event().wait()
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 8 if self.fault == "has fewer batches" else 12))


def main(folder, fault, callback):
    socket.gethostname = lambda: f"machine{RANK}"
    callbacks = []
    if callback == "with":
        from lightning_gpuprof import GpuProfCallback

        callbacks = [GpuProfCallback(wait=1, window=2)]
    trainer = Trainer(
        max_epochs=1,
        limit_val_batches=0,
        strategy=DDPStrategy(process_group_backend="gloo"),
        accelerator="cpu",
        devices=1,
        num_nodes=2,
        use_distributed_sampler=False,
        callbacks=callbacks,
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Model(fault))


if __name__ == "__main__":
    main(*sys.argv[1:])
