"""Measures what the looks at the start cost, each alone: FunctionWatch's and CallWatch's.

    python benchmarks/cost/looks.py [--rounds 12]

They look at a few batches and leave nothing behind, so they are measured by all of the first
batches: what these take with a watch beside a PhaseTimer more than with the PhaseTimer alone, in
fits that take turns, each in a fork of a process that has trained already. Two clocks: the wall's,
and the training thread's own time on a core, which a neighbour does not lengthen.
"""

import statistics
import sys
import tempfile
import time
import warnings
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import Children, Spread, forked, interleaved, one_thread, write_results

BATCHES, WIDTH, PAIRS = 12, 64, 10
TIMER = "PhaseTimer alone"


def first_batches_ns(name: str) -> tuple[int, int]:
    """Fit once; return the wall's and the thread's ns of the first batches."""
    import torch
    from lightning.pytorch import LightningModule, Trainer

    from lightning_gpuprof import PhaseTimer
    from lightning_gpuprof.callbacks.watches.call_watch import CallWatch
    from lightning_gpuprof.callbacks.watches.function_watch import FunctionWatch

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    watches: dict[str, Callable[[], list[Any]]] = {
        TIMER: list,
        "FunctionWatch": lambda: [FunctionWatch()],
        "CallWatch": lambda: [CallWatch()],
    }
    stamps: list[tuple[int, int]] = []

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            pairs = [(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(PAIRS)]
            self.layers = torch.nn.Sequential(*[layer for pair in pairs for layer in pair])

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layers(batch).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    class Batches(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            for _ in range(BATCHES + 1):
                stamps.append((time.perf_counter_ns(), time.thread_time_ns()))
                yield torch.ones(16, WIDTH)

    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            accelerator="cpu", max_epochs=1, logger=False, enable_progress_bar=False,
            enable_checkpointing=False, enable_model_summary=False, default_root_dir=folder,
            callbacks=[PhaseTimer(console=False), *watches[name]()],
        )  # fmt: skip
        trainer.fit(Model(), torch.utils.data.DataLoader(Batches(), batch_size=None))
    (wall, own), (wall_then, own_then) = stamps[0], stamps[BATCHES]
    return wall_then - wall, own_then - own


def measured(rounds: int) -> dict[str, Any]:
    """Return what each watch adds, by both clocks, in ns."""
    names = (TIMER, "FunctionWatch", "CallWatch")
    for name in names:
        first_batches_ns(name)
    turns: dict[str, Callable[[], Any]] = {
        name: lambda name=name: forked(first_batches_ns, name) for name in names
    }
    figures = interleaved(turns, rounds=rounds)
    found: dict[str, Any] = {}
    for name in names[1:]:
        for at, clock in enumerate(("wall", "thread")):
            added = [a[at] - b[at] for a, b in zip(figures[name], figures[TIMER], strict=True)]
            error = statistics.stdev(added) / rounds**0.5
            found[f"{name} {clock}"] = Spread.of(added).as_dict() | {"error_of_mean": error}
    return found


def main() -> None:
    """Measure, print and write."""
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    rounds = parser.parse_args().rounds
    one_thread()
    with tempfile.NamedTemporaryFile(suffix=".log", delete=False) as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
    found = {
        "batches": BATCHES,
        "modules": 2 * PAIRS + 2,
        "functions_per_batch": 2 * PAIRS + 2,
        "added_ns": children.call(measured, rounds, timeout_s=600.0),
    }
    for name, row in found["added_ns"].items():
        low, middle, high = (row[key] / 1e3 for key in ("low", "median", "high"))
        print(f"{name}: {middle:+,.0f} us in all ({low:+,.0f} to {high:+,.0f})")
    print(f"Written: {write_results('looks', found)}")


if __name__ == "__main__":
    main()
