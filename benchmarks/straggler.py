"""Two ranks: the cost of a cause, against the saving that the report predicts.

    python benchmarks/straggler.py [--fits 2]

Two processes train on the CPU by gloo; rank 1 multiplies matrices in its forward pass, about 4 ms
of a step of 15 ms. Whole runs in turn differ by more than that, so it comes and goes within one
fit: blocks of steps with and without it take turns, in random order, on both ranks at the same
steps, and each is compared with the one beside it. Then the program with it in every step is
trained under GpuProfCallback, and its report is asked. The machine should do nothing else.
"""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from _harness import QUIET, findings_of, one_thread, report, write_results

one_thread()

import torch  # noqa: E402
from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402

BLOCK, SETTLING = 50, 5
"""Steps of a block, and those of them in which what was before still shows."""
WARM_BLOCKS = 2
FEATURES, WIDTH, BATCH = 64, 1024, 64
PRODUCTS = 6
"""Of matrices, by rank 1."""
PAIRS, PROFILED_STEPS = 12, 300
"""Of blocks in the fit that is timed; steps of the fit under GpuProfCallback."""
FINDING = "straggler-rank"


class Model(LightningModule):
    """A perceptron; where `slow` says so, rank 1 does more in its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(FEATURES, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, WIDTH),
            torch.nn.ReLU(),
            torch.nn.Linear(WIDTH, 1),
        )
        self.matrix = torch.eye(256)
        self.slow = True

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        if self.slow and self.global_rank == 1:
            for _ in range(PRODUCTS):
                self.matrix @ self.matrix
        loss: torch.Tensor = self.net(batch[0]).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Blocks(Callback):
    """Turns the straggler on and off by the number of the step, and times each block of steps."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)  # on both ranks the same
        self.order = [on for _ in range(PAIRS) for on in chance.sample((True, False), 2)]
        self.mean_ns: list[float] = []
        self._step = -WARM_BLOCKS * BLOCK

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        """Note the time; where a block ends, begin the next."""
        self._step += 1
        block, step = divmod(self._step, BLOCK)
        if block > 0 and step == 0:
            took = time.perf_counter_ns() - self._began_ns
            self.mean_ns.append(took / (BLOCK - SETTLING))
        if step == 0 and 0 <= block < len(self.order):
            trainer.lightning_module.slow = self.order[block]
        if step == SETTLING:
            self._began_ns = time.perf_counter_ns()

    @property
    def steps(self) -> int:
        """All steps of the fit."""
        return (WARM_BLOCKS + len(self.order)) * BLOCK

    def pairs_ns(self) -> list[tuple[float, float]]:
        """Return mean steps with and without the cause, of neighbouring blocks."""
        found = []
        for at in range(0, len(self.order), 2):
            pair = dict(zip(self.order[at : at + 2], self.mean_ns[at : at + 2], strict=True))
            found.append((pair[True], pair[False]))
        return found


def fit(folder: Path, seed: int | None) -> None:
    """Train on two ranks, which run this script again: timed by blocks, or None for profiled."""
    blocks, log_dir = None, str(folder)
    if seed is None:
        from lightning_gpuprof import GpuProfCallback

        steps = PROFILED_STEPS
        callback: Callback = GpuProfCallback(trace=False, overhead_budget=1, log_dir=log_dir)
    else:
        callback = blocks = Blocks(seed)
        steps = blocks.steps
    torch.manual_seed(0)
    trainer = Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        callbacks=[callback],
        **QUIET,
        default_root_dir=log_dir,
    )
    data = TensorDataset(torch.randn(2 * BATCH * steps, FEATURES))
    trainer.fit(Model(), DataLoader(data, batch_size=BATCH))
    if blocks is not None and trainer.is_global_zero:
        (folder / "pairs.json").write_text(json.dumps(blocks.pairs_ns()))


def started(folder: Path, seed: int | None) -> None:
    """Fit in a process of its own."""
    folder.mkdir(parents=True)
    command = [sys.executable, __file__, "--folder", str(folder)]
    command += [] if seed is None else ["--seed", str(seed)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr[-3000:]}")


def saved(pairs: list[tuple[float, float]]) -> dict[str, float]:
    """Return what the fix saves, by the means of pairs of blocks."""
    savings = [with_ns - without_ns for with_ns, without_ns in pairs]
    return {
        "pairs": len(pairs),
        "step_ns": round(statistics.mean(with_ns for with_ns, _ in pairs)),
        "saved_ns": round(statistics.mean(savings)),
        "error_ns": round(statistics.stdev(savings) / len(savings) ** 0.5),
        "saved_median_ns": round(statistics.median(savings)),
    }


def predicted(log_dir: Path) -> dict[str, Any]:
    """Return the finding's saving in a run's report, with its evidence."""
    findings = findings_of(report(log_dir))
    ids = [one["id"] for one in findings]
    if FINDING not in ids:
        return {"found": ids}
    said = findings[ids.index(FINDING)]
    return {"found": ids, "saving_ns": said["saving_ns"], "evidence": said["evidence"]}


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=2, help="timed ones, and as many profiled")
    parser.add_argument("--folder", type=Path, help="used by itself: of one rank of one fit")
    parser.add_argument("--seed", type=int, help="of the order of blocks; without: profiled")
    chosen = parser.parse_args()
    if chosen.folder:
        fit(chosen.folder, chosen.seed)
        return
    timed, said = [], []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.fits):
            started(place := Path(folder, f"timed{seed}"), seed)
            timed.append(saved(json.loads((place / "pairs.json").read_text())))
            started(place := Path(folder, f"profiled{seed}"), None)
            said.append(predicted(place))
    found = {"cause": "straggler", "ranks": 2, "backend": "gloo"}
    found |= {"fits": timed, "predicted": said}
    print(json.dumps(found, indent=1))
    print(f"Written: {write_results('ranks-straggler', found)}")


if __name__ == "__main__":
    main()
