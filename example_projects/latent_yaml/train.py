"""Trains what a YAML file says, profiled as its `profiling:` section says."""

import os
import shutil
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from autoencoder import LatentWaves
from lightning.pytorch.loggers import TensorBoardLogger
from torch.utils.data import DataLoader
from waves import Waves

from lightning_gpuprof import GpuProfCallback


def main(config_name: str) -> None:
    parser = ArgumentParser(description="Train an autoencoder as a YAML file says.")
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    runs = parser.parse_args().runs
    path = Path(__file__).parent / config_name
    config: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    L.seed_everything(0)
    trainer = L.Trainer(
        callbacks=[GpuProfCallback.from_yaml(path)],
        logger=TensorBoardLogger(runs, name=f"latent_yaml-{path.stem}"),
        max_epochs=config.get("epochs", 1),
        accelerator="auto",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    model = LatentWaves(**config["model"])
    model.compile(backend=_backend(), **config["compile"])
    began = time.perf_counter()
    trainer.fit(model, DataLoader(Waves(**config["data"]), batch_size=None))
    print(f"{time.perf_counter() - began:.1f} s for {trainer.global_step} steps")


def _backend() -> str:
    """Inductor where its code can be built: on a GPU by a C compiler, elsewhere by one for C++."""
    gpu = torch.cuda.is_available()
    asked, other = ("CC", "clang") if gpu else ("CXX", "clang++")
    compiler = os.environ.get(asked, "gcc" if gpu else "g++")
    return "inductor" if shutil.which(compiler) or shutil.which(other) else "aot_eager"
