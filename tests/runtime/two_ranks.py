"""Run by test_two_ranks.py: trains on two ranks, each as on a machine of its own; one may fail.

`python two_ranks.py FOLDER FAULT...` forks both ranks of each run, with the callback and without,
and writes their exit statuses to ends.json.
"""

import json
import os
import signal
import socket
import sys
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.strategies import DDPStrategy
from rank_processes import fork_ranks
from torch.utils.data import DataLoader


class Model(BoringModel):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def on_train_start(self):
        # Not from the group's beginning: a process may start late.
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


def train(folder, fault, callback, rank, port):
    """Be one rank; what happens, happens to rank 1."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"LOCAL_RANK": "0", "NODE_RANK": str(rank)}
    socket.gethostname = lambda: f"machine{rank}"
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
        default_root_dir=os.path.join(folder, fault, callback),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    trainer.fit(Model(fault if rank else ""))


def started(folder, fault, callback):
    """Fork both ranks of a run, and return their numbers."""
    return fork_ranks(partial(train, folder, fault, callback))


def ended(fault, children):
    """Return the exit statuses; who hangs for good is killed once the other has ended."""
    statuses = []
    for child in children:
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        if fault == "hangs" and len(statuses) == 1:
            os.kill(children[1], signal.SIGKILL)
    return statuses


if __name__ == "__main__":
    folder, *faults = sys.argv[1:]
    found = {}
    for fault in faults:
        runs = {callback: started(folder, fault, callback) for callback in ("with", "without")}
        found[fault] = {callback: ended(fault, ranks) for callback, ranks in runs.items()}
    Path(folder, "ends.json").write_text(json.dumps(found))
