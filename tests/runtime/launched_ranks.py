"""Run by test_launched_ranks.py: two ranks on gloo, of which rank 1 takes longer in forward.

`torchrun ... launched_ranks.py FOLDER` trains the rank that it is started as, and
`python launched_ranks.py FOLDER ray` has two workers of Ray Train do so.
"""

import os
import sys
from threading import Event

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.strategies import DDPStrategy
from torch.utils.data import DataLoader

STEPS, WORKERS = 40, 2
LONGER_S = 0.03


class Model(BoringModel):
    def training_step(self, batch, batch_idx):
        if self.global_rank == 1:
            Event().wait(LONGER_S)
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, WORKERS * STEPS))


def trainer(folder, **options):
    from lightning_gpuprof import GpuProfCallback

    return Trainer(
        max_epochs=1,
        limit_val_batches=0,
        accelerator="cpu",
        callbacks=[GpuProfCallback(trace=False, window=20)],
        default_root_dir=folder,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
        **options,
    )


def train_in_worker(settings):
    """Train in a worker of Ray Train, as its documentation for Lightning says."""
    from ray.train import lightning as integration

    strategy = integration.RayDDPStrategy(process_group_backend="gloo")
    environment = integration.RayLightningEnvironment()
    made = trainer(settings["folder"], devices="auto", strategy=strategy, plugins=[environment])
    integration.prepare_trainer(made).fit(Model())


def train_by_ray(folder):
    import ray
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    ray.init(num_cpus=WORKERS, include_dashboard=False, _temp_dir=os.environ.get("RAY_TMP"))
    TorchTrainer(
        train_in_worker,
        train_loop_config={"folder": folder},
        scaling_config=ScalingConfig(num_workers=WORKERS, resources_per_worker={"CPU": 1}),
        run_config=RunConfig(storage_path=os.path.join(folder, "ray")),
    ).fit()


if __name__ == "__main__":
    torch.set_num_threads(1)
    if sys.argv[2:] == ["ray"]:
        train_by_ray(sys.argv[1])
    else:
        strategy = DDPStrategy(process_group_backend="gloo")
        trainer(sys.argv[1], devices=WORKERS, strategy=strategy).fit(Model())
