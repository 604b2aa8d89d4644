"""Run by test_ddp.py: two processes of gloo; writes how many collectives training made.

With the callback, without, and with losses averaged: processes take far longer to start than to
train.
"""

import json
import sys
from collections import Counter
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import DeferredLoss, GpuProfCallback

COLLECTIVES = ("broadcast", "all_reduce", "all_gather", "barrier", "broadcast_object_list")


class Count(Callback):
    """Counts the collectives between the first step's begin and the last one's end."""

    def __init__(self, path):
        self.path = path
        self.counts = Counter()
        for name in COLLECTIVES:
            setattr(torch.distributed, name, self.counted(name))

    def counted(self, name):
        real = getattr(torch.distributed, name)

        def call(*args, **kwargs):
            self.counts[name] += 1
            return real(*args, **kwargs)

        return call

    def on_train_epoch_start(self, trainer, *args):
        self.counts.clear()

    def on_train_end(self, trainer, module):
        facts = {
            "counts": dict(self.counts),
            "weight": float(module.layer.weight.detach().double().sum()),
        }
        Path(f"{self.path}-rank{trainer.global_rank}.json").write_text(json.dumps(facts))


if __name__ == "__main__":
    root = sys.argv[1]
    for mode in ("profiled", "bare", "averaged"):
        torch.manual_seed(0)
        ours = {
            "profiled": [GpuProfCallback(trace=False, window=3)],
            "averaged": [DeferredLoss(window=3, sync_dist=True)],
        }.get(mode, [])
        trainer = Trainer(
            max_epochs=1,
            limit_train_batches=20,
            limit_val_batches=2,
            strategy="ddp",
            accelerator="cpu",
            devices=2,
            callbacks=[Count(f"{root}/{mode}"), *ours],
            default_root_dir=f"{root}/{mode}",
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=True,
        )
        trainer.fit(BoringModel())
