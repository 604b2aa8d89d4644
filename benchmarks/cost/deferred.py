"""What logging the loss of every step costs: DeferredLoss, `loss.item()` and `self.log`.

And all of `GpuProfCallback`, which logs it as DeferredLoss does: but for the trace and the line
sampler, which are a cost of the first steps, and the report.

python benchmarks/cost/deferred.py [--rounds 9] [--steps 2000]

Each variant trains the same small model (a step of about half a millisecond) with a
TensorBoardLogger in a process of its own, in turns. The figure is wall time per step, with the
logger's files complete at the end, minus that of training without logging the loss; they all
must have left the same values under the same steps in the event file. On a CPU this is the cost
of the calls alone: what a host sync costs on a GPU comes on top for the other two.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import Children, Spread, interleaved, one_thread, write_results

one_thread()  # torch is imported later, by the children

VARIANTS = ("nothing", "deferred_loss", "gpuprof", "item", "self_log")
WARM_UP = 200


def train(variant: str, steps: int) -> tuple[float, list[tuple[int, float]]]:
    """Return us per step, and what the event file holds of the loss."""
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.loggers import TensorBoardLogger
    from torch.utils.data import DataLoader, TensorDataset

    from lightning_gpuprof import DeferredLoss, GpuProfCallback

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(
                torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)
            )

        def training_step(self, batch, batch_idx):
            loss = self.layers(batch[0]).square().mean()
            if variant == "item":
                self.logger.log_metrics({"loss": loss.item()}, batch_idx)
            elif variant == "self_log":
                self.log("loss", loss)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    class Clock(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if batch_idx == WARM_UP:
                self.begun = time.perf_counter_ns()

    def callbacks() -> list[Callback]:
        if variant == "gpuprof":
            return [GpuProfCallback(trace=False, lines=False, report=False, console=False)]
        return [DeferredLoss()] if variant == "deferred_loss" else []

    torch.manual_seed(0)
    data = DataLoader(TensorDataset(torch.randn((WARM_UP + steps) * 4, 64)), batch_size=4)
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            max_epochs=1,
            accelerator="cpu",
            logger=TensorBoardLogger(folder),
            log_every_n_steps=1,
            callbacks=[clock, *callbacks()],
            enable_progress_bar=False,
            enable_checkpointing=False,
            enable_model_summary=False,
        )
        trainer.fit(Model(), data)
        took = (time.perf_counter_ns() - clock.begun) / 1e3 / steps
        return took, _logged(trainer.logger.log_dir)


def _logged(folder: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if "tfevents" in name)
    raw = (event for path in paths for event in RawEventFileLoader(path).Load())
    events = map(Event.FromString, raw)
    return [
        (event.step, value.simple_value)
        for event in events
        for value in event.summary.value
        if value.tag == "loss"
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    logged: dict[str, list[tuple[int, float]]] = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        children = Children(
            "torch", "lightning.pytorch", "tensorboard", "torch.utils.tensorboard",
            log=Path(log.name),
        )  # fmt: skip

        def run(variant: str) -> float:
            took, logged[variant] = children.call(train, variant, options.steps)
            return took

        figures = interleaved(
            {variant: (lambda variant=variant: run(variant)) for variant in VARIANTS},
            rounds=options.rounds,
        )
    if not len(logged["deferred_loss"]) == WARM_UP + options.steps:
        raise RuntimeError(f"{len(logged['deferred_loss'])} values were logged")
    for variant in VARIANTS[2:]:
        if logged[variant] != logged["deferred_loss"]:
            raise RuntimeError(f"{variant} has logged other values than DeferredLoss")
    results = {}
    step = Spread.of(figures["nothing"])
    print(f"a step without logging takes {step.median:.0f} us ({step.low:.0f}-{step.high:.0f})")
    print("logging the loss of each step costs, us per step (median and range of the rounds)")
    for variant in VARIANTS[1:]:
        # Round by round, so that what slows the machine for a while slows both.
        pairs = zip(figures[variant], figures["nothing"], strict=True)
        spread = Spread.of(with_it - without for with_it, without in pairs)
        print(f"  {variant:15} {spread.median:7.1f}  {spread.low:.1f} to {spread.high:.1f}")
        results[variant] = spread.as_dict()
    payload = {"unit": "us", "step": step.as_dict(), "added": results, "same_values": True}
    print(write_results("deferred", payload))


if __name__ == "__main__":
    main()
