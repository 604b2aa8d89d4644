"""Run by test_sharded_ranks.py: `python sharded_ranks.py FOLDER STRATEGY...` trains two ranks.

It trains with the callback and without. Rank 1 takes longer in its forward pass. What each rank
has learnt, and how many collectives it made, is in `<strategy>-<with or without>-<rank>.json`.
"""

import json
import os
import sys
from functools import partial
from itertools import product
from pathlib import Path
from threading import Event

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy
from rank_processes import fork_ranks
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module
from torch.distributed.tensor.placement_types import Replicate
from torch.utils.data import DataLoader

STEPS = 40
LONGER_S = 0.03


class Model(BoringModel):
    def __init__(self, strategy):
        super().__init__()
        self.strategy = strategy

    def configure_model(self):
        if self.strategy == "tensor":
            plan = RowwiseParallel(input_layouts=Replicate())
            parallelize_module(self.layer, self.device_mesh["tensor_parallel"], plan)
        if self.strategy == "fully_shard":
            fully_shard(self.layer, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch, batch_idx):
        if self.global_rank == 1:
            Event().wait(LONGER_S)
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 2 * STEPS))


def train(folder, name, callback, rank, port):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ |= {"LOCAL_RANK": str(rank), "NODE_RANK": "0"}
    torch.manual_seed(0)
    strategy = DDPStrategy(process_group_backend="gloo")
    if name != "ddp":
        sizes = (1, 2) if name == "tensor" else (2, 1)
        strategy = ModelParallelStrategy(*sizes, process_group_backend="gloo")
    callbacks, original = [], torch.distributed.Work.wait
    if callback == "with":
        from lightning_gpuprof import GpuProfCallback

        callbacks = [GpuProfCallback(trace=False, window=20)]
    trainer = Trainer(
        max_epochs=1,
        limit_val_batches=0,
        strategy=strategy,
        accelerator="cpu",
        devices=2,
        callbacks=callbacks,
        default_root_dir=os.path.join(folder, name, callback),
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    model = Model(name)
    trainer.fit(model)
    group = torch.distributed.group.WORLD
    weight = model.layer.weight
    learnt = {
        "weights": getattr(weight, "_local_tensor", weight).detach().reshape(-1).tolist(),
        "collectives": group._get_sequence_number_for_group(),
        "restored": torch.distributed.Work.wait is original,
    }
    Path(folder, f"{name}-{callback}-{rank}.json").write_text(json.dumps(learnt))


if __name__ == "__main__":
    folder, *names = sys.argv[1:]
    for name, callback in product(names, ("with", "without")):
        children = fork_ranks(partial(train, folder, name, callback))
        if any([os.waitpid(child, 0)[1] for child in children]):
            sys.exit(1)
