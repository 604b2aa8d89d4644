"""Run by test_ddp.py: two processes of gloo; writes how many collectives each fit made.

With the callback, without, on one rank alone, and with losses averaged: processes take far longer
to start than to train.
"""

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import DeferredLoss, GpuProfCallback
from lightning_gpuprof.runtime import log_dir

RANK = int(os.environ.get("LOCAL_RANK", 0))
log_dir.TIMEOUT = timedelta(seconds=1)


class Count(Callback):
    """Counts all collectives of the process group, by its own number of the last one."""

    def collectives(self):
        return torch.distributed.group.WORLD._get_sequence_number_for_group()

    def setup(self, trainer, module, stage):
        self.before = self.collectives()

    def write(self, path, module):
        facts = {
            "collectives": self.collectives() - self.before,
            "weight": float(module.layer.weight.detach().double().sum()),
        }
        Path(f"{path}-rank{RANK}.json").write_text(json.dumps(facts))


def callbacks(mode):
    if mode == "averaged":
        return [DeferredLoss(window=3, sync_dist=True)]
    if mode in ("profiled", f"rank {RANK} alone"):
        return [GpuProfCallback(wait=1, window=3)]
    return []


if __name__ == "__main__":
    root = sys.argv[1]
    for mode in sys.argv[2:]:
        torch.manual_seed(0)
        count, model = Count(), BoringModel()
        trainer = Trainer(
            max_epochs=1,
            limit_train_batches=20,
            limit_val_batches=2,
            strategy="ddp",
            accelerator="cpu",
            devices=2,
            callbacks=[count, *callbacks(mode)],
            default_root_dir=f"{root}/{mode}",
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            logger=True,
        )
        trainer.fit(model)
        count.write(f"{root}/{mode}", model)
