"""48 planted stragglers on four ranks, and clean runs: who is blamed, for what, since when.

    python benchmarks/planted_stragglers.py [--folder FOLDER] [--only TEXT] [--clean 10]

Four processes train on the CPU by gloo under DDP, `fully_shard` and 2 x 2 tensor-by-data. One rank
(or the ranks of a tensor-parallel group) takes longer in the loader, in forward, in backward, in a
callback or by garbage collections: always, since the middle of the run, or until then. The report
is right if it names these ranks, the phase, and the step at which the delay began or ended. Then
the same processes train without the callback, while the cause comes and goes in blocks of steps:
what a step saves without it is compared with the saving that the report promises. A finished case
is kept in the folder, and a second call goes on after it.
"""

import gc
import json
import os
import random
import shutil
import socket
import statistics
import time
import traceback
from argparse import ArgumentParser
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from _harness import QUIET, one_thread, say, table, write_results

one_thread()

import torch  # noqa: E402
from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402
from lightning.pytorch.strategies import DDPStrategy, ModelParallelStrategy  # noqa: E402
from torch.utils.data import DataLoader, Dataset  # noqa: E402

from lightning_gpuprof import GpuProfCallback  # noqa: E402
from lightning_gpuprof.records.files import find_runs  # noqa: E402
from lightning_gpuprof.report.load import load_report  # noqa: E402

WORLD = 4
STRATEGIES = ("ddp", "fully_shard", "2 x 2")
CAUSES = {
    "loader": "data_wait",
    "forward": "forward",
    "backward": "backward",
    "callback": "callbacks",
    "collection": "garbage_collection",
}
"""Where a rank takes longer, and the phase of it."""
WHENS = ("always", "since", "until")
STEPS, BEGIN = 160, 80
DELAY_S = 0.03
OBJECTS = 400_000
"""What a full garbage collection has to look at, on the rank where that is the cause."""
BLOCK, SETTLING, PAIRS = 8, 2, 5
NEAR = 8
"""Steps by which the report may be off about when a delay began or ended."""
FEATURES, WIDTH, BATCH = 32, 64, 8
FINDING = "straggler-rank"
PLANTED, RIGHT, TRUE_SAVINGS = 48, 46, 0.8


@dataclass(frozen=True)
class Case:
    """A run: its strategy, and what is planted in it."""

    strategy: str
    cause: str | None
    when: str = "always"
    ranks: tuple[int, ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        words = [self.strategy.replace(" ", ""), self.cause or "clean", self.when]
        return "-".join([*words, *map(str, self.ranks), str(self.seed)])


def cases(clean: int) -> list[Case]:
    """Return all planted stragglers, and so many clean runs of every strategy."""
    planted = [
        Case(strategy, cause, when, ((number + place) % WORLD,))
        for place, strategy in enumerate(STRATEGIES)
        for number, (cause, when) in enumerate((cause, when) for cause in CAUSES for when in WHENS)
    ]
    group = [Case("2 x 2", "loader", "always", (2, 3)), Case("2 x 2", "forward", "since", (0, 1))]
    together = [Case("ddp", "callback", "always", (0,), seed=1)]
    quiet = [Case(strategy, None, seed=seed) for seed in range(clean) for strategy in STRATEGIES]
    return planted + group + together + quiet


class Cause:
    """Delays a rank while `on`; in a collection, by what it has to look at."""

    def __init__(self, case: Case, rank: int) -> None:
        self._here = case.cause if rank in case.ranks else None
        self._objects = [[] for _ in range(OBJECTS)] if self._here == "collection" else []
        self.on = True

    def at(self, cause: str) -> None:
        """Take longer if this is the cause."""
        if self._here != cause or not self.on:
            return
        if cause == "collection":
            gc.collect()
        else:
            time.sleep(DELAY_S)


class Samples(Dataset[torch.Tensor]):
    """Batches that are the same in every fit."""

    def __init__(self, cause: Cause, steps: int) -> None:
        self._cause = cause
        self._batches = torch.randn(8, BATCH, FEATURES)
        self._steps = steps

    def __len__(self) -> int:
        return WORLD * self._steps

    def __getitem__(self, index: int) -> torch.Tensor:
        self._cause.at("loader")
        return self._batches[index % 8]


class Net(torch.nn.Module):
    """A small perceptron, whose backward pass may be what takes longer."""

    def __init__(self, cause: Cause) -> None:
        super().__init__()
        self._cause = cause
        self.first = torch.nn.Linear(FEATURES, WIDTH)
        self.second = torch.nn.Linear(WIDTH, FEATURES)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """Return the output of the second layer."""
        hidden = self.first(batch)
        hidden.register_hook(lambda gradient: self._cause.at("backward"))
        output: torch.Tensor = self.second(torch.relu(hidden))
        return output


class Model(LightningModule):
    """Trains the perceptron under any of the strategies."""

    def __init__(self, case: Case, cause: Cause) -> None:
        super().__init__()
        self._case, self._cause = case, cause
        torch.manual_seed(0)
        self.net = Net(cause)

    def configure_model(self) -> None:
        """Shard the model as the strategy says."""
        if self._case.strategy == "ddp":
            return
        from torch.distributed.fsdp import fully_shard

        if self._case.strategy == "2 x 2":
            from torch.distributed.tensor.parallel import (
                ColwiseParallel,
                RowwiseParallel,
                parallelize_module,
            )

            plan = {"first": ColwiseParallel(), "second": RowwiseParallel()}
            parallelize_module(self.net, self.device_mesh["tensor_parallel"], plan)
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    def training_step(self, batch: torch.Tensor, batch_idx: int) -> torch.Tensor:
        """Return a loss."""
        self._cause.at("forward")
        loss: torch.Tensor = self.net(batch).square().mean()
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.SGD(self.parameters(), lr=1e-3)


class Planted(Callback):
    """Turns the cause on and off, and is slow itself if that is the cause."""

    def __init__(self, case: Case, cause: Cause) -> None:
        self._case, self._cause = case, cause

    def on_train_batch_start(self, trainer: Trainer, *args: Any) -> None:
        """Collect garbage, if that is the cause."""
        self._cause.at("collection")

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        """Decide about the next step."""
        after = trainer.global_step >= BEGIN
        self._cause.on = self._case.when == "always" or after == (self._case.when == "since")
        self._cause.at("callback")


class Blocks(Planted):
    """Turns the cause on and off in blocks of steps, and times each block."""

    def __init__(self, case: Case, cause: Cause) -> None:
        super().__init__(case, cause)
        chance = random.Random(case.name)  # the same on all ranks
        self.order = [on for _ in range(PAIRS) for on in chance.sample((True, False), 2)]
        self.mean_ns: list[float] = []
        self._began_ns = 0

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        """Note the time; where a block ends, begin the next."""
        block, step = divmod(trainer.global_step - BLOCK, BLOCK)
        if block > 0 and step == 0:
            took_ns = time.perf_counter_ns() - self._began_ns
            self.mean_ns.append(took_ns / (BLOCK - SETTLING))
        if step == 0 and 0 <= block < len(self.order):
            self._cause.on = self.order[block]
        if step == SETTLING:
            self._began_ns = time.perf_counter_ns()
        self._cause.at("callback")

    def saved_ns(self) -> list[float]:
        """Return by how much steps were shorter without the cause, by pair of blocks."""
        saved = []
        for at in range(0, len(self.order), 2):
            pair = dict(zip(self.order[at : at + 2], self.mean_ns[at : at + 2], strict=True))
            saved.append(pair[True] - pair[False])
        return saved


def fit(case: Case, folder: Path, cause: Cause, callbacks: list[Callback], steps: int) -> None:
    """Train once."""
    strategy: Any = DDPStrategy(process_group_backend="gloo")
    if case.strategy != "ddp":
        tensor = 2 if case.strategy == "2 x 2" else 1
        strategy = ModelParallelStrategy(WORLD // tensor, tensor, process_group_backend="gloo")
    cause.on = case.when != "since"
    trainer = Trainer(
        max_epochs=1,
        limit_train_batches=steps,
        strategy=strategy,
        accelerator="cpu",
        devices=WORLD,
        callbacks=callbacks,
        default_root_dir=str(folder),
        **{**QUIET, "enable_checkpointing": False},
    )
    model = Model(case, cause)
    trainer.fit(model, DataLoader(Samples(cause, steps), batch_size=None))


def rank_of(case: Case, folder: Path, rank: int, port: int) -> None:
    """Be one rank: train under the callback, then in blocks."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "NODE_RANK": "0"}
    os.environ |= {"LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD)}
    cause = Cause(case, rank)
    profiler = GpuProfCallback(trace=False, overhead_budget=1, log_dir=str(folder), window=20)
    fit(case, folder, cause, [Planted(case, cause), profiler], STEPS)
    if case.cause is None or case.when == "until":
        return
    blocks = Blocks(case, cause)
    fit(case, folder, cause, [blocks], (2 + len(blocks.order)) * BLOCK)
    if rank == 0:
        (folder / "saved.json").write_text(json.dumps(blocks.saved_ns()))


def train(case: Case, folder: Path) -> None:
    """Fork the ranks of a case and wait for them."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    children = []
    for rank in range(WORLD):
        children.append(os.fork())
        if not children[-1]:
            status = 1
            try:
                output = os.open(folder / f"output{rank}.txt", os.O_CREAT | os.O_WRONLY)
                os.dup2(output, 1)
                os.dup2(output, 2)
                rank_of(case, folder, rank, port)
                status = 0
            except BaseException:  # noqa: BLE001 - what a rank raises is written to its output
                traceback.print_exc()
            finally:
                os._exit(status)
    ends = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(ends):
        raise RuntimeError(f"{case.name}: ranks ended with {ends}; see {folder}/output*.txt")


def judged(case: Case, folder: Path) -> dict[str, Any]:
    """Return what the report says of a case, and whether that is right."""
    report = load_report(next(iter(find_runs(str(folder)))))
    finding = next((item for item in report.findings if item.id == FINDING), None)
    said: dict[str, Any] = asdict(case) | {"name": case.name, "first": None, "blamed": []}
    said["step_ns"] = report.results.step_ns
    if report.findings:
        said["first"] = report.findings[0].id
    if finding is None:
        return said | {"right": case.cause is None}
    blamed = [place.rank for place in finding.places if place.rank is not None and not place.file]
    phase = finding.places[0].phase if finding.places else None
    said |= {"title": finding.title, "advice": finding.advice, "blamed": blamed, "phase": phase}
    said |= {"saving_ns": [finding.saving_ns.low, finding.saving_ns.high]}
    said["evidence"] = dict(finding.evidence)
    if case.cause is None:
        return said | {"right": not blamed}
    since, until = (finding.evidence.get(f"{word}_step_count") for word in ("since", "until"))
    right = {
        "rank": sorted(set(blamed)) == sorted(case.ranks),
        "phase": phase == CAUSES[case.cause],
        "when": _when_is_right(case.when, since, until),
    }
    said |= {"rights": right, "right": all(right.values())}
    if (folder / "saved.json").exists():
        pairs = json.loads((folder / "saved.json").read_text())
        late_frac = 1.0 if case.when == "always" else 1 - BEGIN / STEPS
        measured = statistics.median(pairs) * late_frac  # savings are of the mean step
        said["measured_ns"] = round(measured)
        said["inside"] = finding.saving_ns.low <= measured <= finding.saving_ns.high
    return said


def _when_is_right(when: str, since: float | None, until: float | None) -> bool:
    if when == "always":
        return since is None and until is None
    at, other = (since, until) if when == "since" else (until, since)
    return other is None and at is not None and abs(at - BEGIN) <= NEAR


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("/tmp/planted_stragglers"))
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--clean", type=int, default=10, help="clean runs of every strategy")
    parser.add_argument("--again", action="store_true", help="judge the finished runs again")
    chosen = parser.parse_args()
    gc.freeze()
    results = []
    for case in cases(chosen.clean):
        if chosen.only not in case.name:
            continue
        folder = chosen.folder / case.name
        done = folder / "judged.json"
        began = time.monotonic()
        if not done.exists() and not (folder / "trained").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            train(case, folder)
            (folder / "trained").touch()
        if chosen.again or not done.exists():
            done.write_text(json.dumps(judged(case, folder)))
        result = json.loads(done.read_text())
        results.append(result)
        say(
            f"{case.name}: {'right' if result['right'] else 'WRONG'} {result.get('rights', '')} "
            f"{result.get('title')} {time.monotonic() - began:.1f} s"
        )
    summary = summarized(results)
    print("\n".join(page(summary, results)))
    if not chosen.only:
        write_results("planted-stragglers", {**summary, "cases": results})


def summarized(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the counts that the goals are about."""
    planted = [result for result in results if result["cause"]]
    clean = [result for result in results if not result["cause"]]
    compared = [result for result in planted if "inside" in result]
    parts = {
        part: sum(bool(result.get("rights", {}).get(part)) for result in planted)
        for part in ("rank", "phase", "when")
    }
    return {
        "planted_count": len(planted),
        "right_count": sum(result["right"] for result in planted),
        **{f"right_{part}_count": count for part, count in parts.items()},
        "compared_count": len(compared),
        "inside_count": sum(result["inside"] for result in compared),
        "clean_count": len(clean),
        "blamed_count": sum(not result["right"] for result in clean),
    }


def page(summary: dict[str, Any], results: list[dict[str, Any]]) -> list[str]:
    """Return the results as Markdown."""
    rows = []
    for strategy in STRATEGIES:
        own = summarized([result for result in results if result["strategy"] == strategy])
        rows.append((strategy, *(own[key] for key in summary)))
    head = ["", *(key.removesuffix("_count").replace("_", " ") for key in summary)]
    return table(head, [*rows, ("all", *summary.values())])


if __name__ == "__main__":
    main()
