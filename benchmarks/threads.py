"""Trains in several threads of one process, as Optuna's `n_jobs` does, and counts the endings.

    python benchmarks/threads.py [--processes 25]

Runs as many processes of each kind: four and eight threads, each with a Trainer and the default
callback, with and without every second trial raising in the steps of the profiler window. A process
ends well if its exit status is 0, every trial ended as it should and no part of ours failed.
"""

import os
import subprocess
import sys
import tempfile
import threading
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path
from typing import Any

LIMIT_S = 120


def train_in_threads(threads: int, raising: bool, folder: str) -> None:
    """Train in threads, and raise AssertionError if a trial did not end as it should."""
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from torch.utils.data import DataLoader

    from lightning_gpuprof import GpuProfCallback
    from lightning_gpuprof.records.reader import read_run
    from lightning_gpuprof.records.schema import ProbeDisabled

    torch.set_num_threads(1)
    endings: dict[int, str] = {}

    class Model(LightningModule):
        def __init__(self, raises: bool) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 4)
            self.raises = raises

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if self.raises and batch_idx == 14:
                raise ValueError("trial")
            return self.layer(batch).pow(2).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    def trial(number: int) -> None:
        trainer = Trainer(
            max_epochs=2,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            accelerator="cpu",
            callbacks=[GpuProfCallback(log_dir=f"{folder}/{number}", report=False)],
        )
        try:
            loader: Any = DataLoader(torch.randn(200, 8), batch_size=4)  # type: ignore[arg-type]
            trainer.fit(Model(raising and number % 2 == 1), loader)
            endings[number] = f"{trainer.global_step} steps"
        except ValueError:
            endings[number] = "raised"

    trials = [threading.Thread(target=trial, args=(number,)) for number in range(threads)]
    for thread in trials:
        thread.start()
    for thread in trials:
        thread.join()
    for number in range(threads):
        expected = "raised" if raising and number % 2 == 1 else "100 steps"
        assert endings.get(number) == expected, (number, endings)
        failed = read_run(f"{folder}/{number}")[0].sessions[-1].all(ProbeDisabled)
        assert not failed, failed[0].traceback


def ending_of(threads: int, raising: bool) -> str:
    """Run a process and describe how it ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--threads", str(threads), "--folder", folder]
        environment = os.environ | {"PYTHONFAULTHANDLER": "1"}
        try:
            process = subprocess.run(
                command + ["--raising"] * raising,
                cwd=Path(folder),
                env=environment,
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
            )
        except subprocess.TimeoutExpired:
            return f"not within {LIMIT_S} s"
    if process.returncode == 0:
        return "well"
    print(process.stderr[-2000:], file=sys.stderr)
    return f"exit status {process.returncode}"


def main() -> None:
    """Run the benchmark, or one of its processes."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=25, help="of each of the four kinds")
    parser.add_argument("--threads", type=int, help="train in this process")
    parser.add_argument("--raising", action="store_true")
    parser.add_argument("--folder")
    options = parser.parse_args()
    if options.threads:
        train_in_threads(options.threads, options.raising, options.folder)
        return
    endings: dict[tuple[int, bool], Counter[str]] = {}
    for _ in range(options.processes):
        for threads in (4, 8):
            for raising in (False, True):
                kind = endings.setdefault((threads, raising), Counter())
                kind[ending_of(threads, raising)] += 1
    for (threads, raising), counts in endings.items():
        trials = "every second trial raises" if raising else "all trials finish"
        ended = ", ".join(f"{ending}: {count}" for ending, count in counts.items())
        print(f"{threads} threads, {trials}: {ended}")


if __name__ == "__main__":
    main()
