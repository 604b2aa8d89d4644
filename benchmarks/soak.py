"""Trains 200,000 steps with all defaults: does anything grow, and do steps become slower?

    python benchmarks/soak.py [--steps 200000]

A fit of a tiny model without the callback, then one with it, each in a process of its own, with
Lightning's default logger and checkpoints. Read once in a thousand steps: resident memory, open
files, threads, the size of our records and of the logger's files, and the training thread's CPU
time, which other programs disturb less than the clock. The warm-up is a tenth of the steps.
"""

import os
import statistics
import sys
import tempfile
import time
from argparse import ArgumentParser
from itertools import pairwise
from pathlib import Path
from typing import Any

from _figures import figure
from _harness import Children, one_thread, write_results

BLOCK, EPOCH = 1_000, 5_000
"""Steps between two readings, and in an epoch."""
MOST_BYTES, MOST_MIB = 50.0, 5.0
READINGS = ("rss_bytes", "fds", "threads", "records_bytes", "events_bytes", "cpu_ns", "wall_ns")


def soak(profiled: bool, steps: int) -> list[dict[str, int]]:
    """Return what was read at the beginning of each block of steps, and at the end."""
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer

    from lightning_gpuprof import GpuProfCallback

    torch.set_num_threads(1)
    readings: list[dict[str, int]] = []

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(32, 32)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    class Probe(Callback):
        def on_train_batch_start(self, trainer: Trainer, *_: Any) -> None:
            if trainer.global_step % BLOCK == 0:
                readings.append(read(folder))

        def on_train_end(self, *_: Any) -> None:
            readings.append(read(folder))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        batches = torch.utils.data.TensorDataset(torch.randn(4 * EPOCH, 32))
        trainer = Trainer(
            max_steps=steps,
            max_epochs=-1,
            accelerator="cpu",
            default_root_dir=folder,
            enable_progress_bar=False,
            callbacks=[Probe(), *([GpuProfCallback()] if profiled else [])],
        )
        trainer.fit(Model(), torch.utils.data.DataLoader(batches, batch_size=4))
    return readings


def read(folder: Path) -> dict[str, int]:
    """Return `READINGS` of this process and its run."""
    own, logged = (
        sum(path.stat().st_size for path in folder.rglob(pattern))
        for pattern in ("rank0.jsonl", "events.out.tfevents*")
    )
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    rss = pages * os.sysconf("SC_PAGE_SIZE")
    fds, threads = (len(os.listdir(f"/proc/self/{kind}")) for kind in ("fd", "task"))
    values = (rss, fds, threads, own, logged, time.thread_time_ns(), time.perf_counter_ns())
    return dict(zip(READINGS, values, strict=True))


def summary(readings: list[dict[str, int]]) -> dict[str, Any]:
    """Return what grew after the warm-up, and what a step took in each block."""
    after = readings[len(readings) // 10 :]
    steps = BLOCK * (len(after) - 1)

    def grew(name: str) -> int:
        return max(one[name] for one in after) - after[0][name]

    blocks = {
        name: [(two[name] - one[name]) / BLOCK for one, two in pairwise(after)]
        for name in ("cpu_ns", "wall_ns")
    }
    fifth, *_, highest = statistics.quantiles(blocks["cpu_ns"], n=20)
    return {
        "memory_grew_mib": grew("rss_bytes") / 2**20,
        "fds_grew": grew("fds"),
        "threads_grew": grew("threads"),
        "records_bytes_per_step": grew("records_bytes") / steps,
        "events_bytes_per_step": grew("events_bytes") / steps,
        "cpu_us_per_step": {
            "first thousand": blocks["cpu_ns"][0] / 1e3,
            "last thousand": blocks["cpu_ns"][-1] / 1e3,
            "5 and 95 % of all": [fifth / 1e3, highest / 1e3],
        },
        "wall_us_per_step": statistics.median(blocks["wall_ns"]) / 1e3,
        "last_over_first": blocks["cpu_ns"][-1] / blocks["cpu_ns"][0],
        "noise": highest / fifth,
        "readings": readings[:: max(1, len(readings) // 20)],
    }


def main() -> int:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200_000)
    args = parser.parse_args()
    one_thread()
    with tempfile.TemporaryDirectory() as folder:
        children = Children("torch", "lightning.pytorch", log=Path(folder) / "log.txt")
        bare, ours = (
            summary(children.call(soak, profiled, args.steps, timeout_s=7200.0))
            for profiled in (False, True)
        )
    passed = [
        figure("soak: MiB grown after warm-up", ours["memory_grew_mib"], most=MOST_MIB),
        figure("soak: open files grown", ours["fds_grew"], most=0),
        figure("soak: threads grown", ours["threads_grew"], most=0),
        figure("soak: bytes recorded per step", ours["records_bytes_per_step"], most=MOST_BYTES),
        figure("soak: last 1,000 over first", ours["last_over_first"], most=bare["noise"]),
    ]
    results = {"steps": args.steps, "with": ours, "without": bare}
    print(f"\nWritten to {write_results('soak', results)}")
    return passed.count(False)


if __name__ == "__main__":
    sys.exit(main())
