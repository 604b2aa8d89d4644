"""The training script: an ordinary one, but for the one line that profiles it."""

from argparse import ArgumentParser

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import TensorBoardLogger
from model import CharTransformer
from text import Windows, source_files
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback

STEPS, BATCH, LENGTH = 300, 32, 64


def train(dataset: type[Windows], *, name: str, runs: str, steps: int) -> str:
    """Train for some batches and return the run's log dir."""
    L.seed_everything(0)
    files = source_files()
    held_out = files[::10]
    used = [path for path in files if path not in held_out]
    train_data = dataset(used, length=LENGTH, count=steps * BATCH)
    val_data = dataset(held_out, length=LENGTH, count=10 * BATCH)

    trainer = L.Trainer(
        callbacks=[GpuProfCallback(), ModelCheckpoint(every_n_train_steps=100)],
        logger=TensorBoardLogger(runs, name=name),
        max_steps=steps,
        val_check_interval=100,
        accelerator="auto",
        devices=1,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        CharTransformer(length=LENGTH),
        DataLoader(train_data, batch_size=BATCH, shuffle=True),
        DataLoader(val_data, batch_size=BATCH),
    )
    return str(trainer.log_dir)


def main(dataset: type[Windows], name: str) -> None:
    parser = ArgumentParser(description="Train a character-level model on Python's own source.")
    parser.add_argument("--runs", default="runs", help="folder for log dirs")
    parser.add_argument("--steps", type=int, default=STEPS, help="batches to train, 100 or more")
    args = parser.parse_args()
    train(dataset, name=f"char_lm-{name}", runs=args.runs, steps=args.steps)
