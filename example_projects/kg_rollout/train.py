"""The training script of both versions; they differ in how walks are collected."""

import time
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger
from policy import Experience, Policy
from torch.utils.data import DataLoader, IterableDataset

from lightning_gpuprof import GpuProfCallback

BATCHES, WALKS = 200, 64


def train(rollouts: Callable[..., IterableDataset[Experience]], *, name: str) -> None:
    parser = ArgumentParser(description="Learn to walk a knowledge graph.")
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    L.seed_everything(0)
    policy = Policy()
    trainer = L.Trainer(
        callbacks=[GpuProfCallback()],
        logger=TensorBoardLogger(parser.parse_args().runs, name=f"kg_rollout-{name}"),
        max_epochs=1,
        accelerator="auto",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    began = time.perf_counter()
    loader: DataLoader[Any] = DataLoader(
        rollouts(policy, batches=BATCHES, walks=WALKS), batch_size=None
    )
    trainer.fit(policy, loader)
    took = time.perf_counter() - began
    found = float(policy.found)
    print(f"{BATCHES * WALKS / took:.0f} walks per second; {found:.0%} found at the end")
