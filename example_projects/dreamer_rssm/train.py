"""The training script of both versions; they differ in the model and the batch size."""

import time
from argparse import ArgumentParser

import lightning as L
from lightning.pytorch.loggers import TensorBoardLogger
from pendulum import episodes
from rssm import WorldModel
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback

EPISODES, EPOCHS = 512, 3


def train(model: type[WorldModel], *, batch: int, name: str, modules: tuple[str, ...] = ()) -> None:
    parser = ArgumentParser(description="Train a small world model on a pendulum.")
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    L.seed_everything(0)
    trainer = L.Trainer(
        callbacks=[GpuProfCallback(modules=modules)],
        logger=TensorBoardLogger(parser.parse_args().runs, name=f"dreamer_rssm-{name}"),
        max_epochs=EPOCHS,
        accelerator="auto",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=False,
    )
    loader = DataLoader(episodes(EPISODES), batch_size=batch, shuffle=True)
    began = time.perf_counter()
    trainer.fit(model(), loader)
    took = time.perf_counter() - began
    losses = {key: round(float(value), 4) for key, value in trainer.callback_metrics.items()}
    print(f"{EPISODES * EPOCHS / took:.0f} episodes per second; last epoch: {losses}")
