"""The variants that overhead.py compares, and one fit with each."""

import logging
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from _harness import QUIET


@dataclass(frozen=True)
class StepKind:
    """A model, and how its steps are timed.

    Attributes:
        block: Steps that are timed together.
        settled: Steps with a variant before its cost is steady: by then a timer knows what it
            costs and marks fewer steps where that is much.
        first: How many of these are toggled too, the run's first; the rest all have the variant.
        blocks: Blocks of a fit with the variant after those, where it is toggled; each has one
            without it beside it.
        fits: Fits per variant, where it is toggled.
        steps: Steps of a whole fit, its first ones included.
    """

    width: int
    layers: int
    batch: int
    block: int
    settled: int
    blocks: int
    fits: int
    steps: int
    first: int | None = None


KINDS = {
    "tiny": StepKind(
        width=32, layers=1, batch=4, block=50, settled=600, blocks=40, fits=4, steps=4_000
    ),
    "tiny, on a GPU": StepKind(
        width=32, layers=1, batch=4, block=20, settled=600, blocks=90, fits=2, steps=4_000
    ),
    "long, on a GPU": StepKind(
        width=2_048, layers=8, batch=2_048, block=5, settled=100, blocks=40, fits=1, steps=300
    ),
    "30 ms": StepKind(
        width=1_024,
        layers=3,
        batch=128,
        block=10,
        settled=1_000,
        blocks=60,
        fits=2,
        steps=1_200,
        first=120,
    ),
}
"""0.3 and 30 ms on one thread of a processor, 1.3 and 8.5 ms on an H100, where blocks of the tiny
step differ by a tenth for no reason, so there are more of them. The step of 30 ms goes through
24 MB of weights and gradients, which leaves no cache warm."""

BARE = "bare Trainer"
AGAIN = "bare Trainer once more"
EVERY_STEP = "overhead_budget=1"
NO_MARKS = "no marks on the device"
DEFAULT = "GpuProfCallback outside its window"
LINES = f"{DEFAULT}, with line samples"
LOGGER = "TensorBoardLogger"
TENSORBOARD = f"{DEFAULT}, with a {LOGGER}"
ITEM, SELF_LOG = "loss.item()", 'self.log("loss", loss)'
VARIANTS = (
    BARE,
    AGAIN,
    "empty callback",
    "PhaseTimer",
    DEFAULT,
    LINES,
    LOGGER,
    TENSORBOARD,
    "DeferredLoss",
    ITEM,
    SELF_LOG,
    "SimpleProfiler",
)
"""self.log logs to a CSVLogger. Beside a TensorBoardLogger ours writes every step's loss to it."""


def whole_fit(variant: str, kind: str, steps: int) -> float:
    """Fit for some steps; return ns per step from the very first on, writing included."""
    times: list[int] = []
    fit(variant, kind, steps + 1, at_block=lambda model: times.append(time.perf_counter_ns()))
    return (times[-1] - times[0]) / (KINDS[kind].block * (len(times) - 1))


def fit(
    variant: str,
    kind: str,
    steps: int,
    *,
    accelerator: str = "cpu",
    at_block: Callable[[Any], None],
    clock: Callable[[], int] = time.perf_counter_ns,
    at_setup: Callable[[Any], object] = lambda context: None,
) -> None:
    """Fit a model.

    Args:
        variant: One of `VARIANTS`, or one with options in its name.
        kind: Key of `KINDS`.
        steps: Steps at most.
        accelerator: Lightning's name of a device.
        at_block: Called with the model where a block begins, as a batch is fetched. It has
            `count`, the batches so far; `computing_ns`, the time of forward, backward and
            optimizer in them; and `logs`, which says what it does with its loss.
        clock: For the variants of ours.
        at_setup: Called with the run's context once a variant of ours has been set up.
    """
    import gc

    import torch
    from lightning.pytorch import Trainer

    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    model = _model(variant, KINDS[kind])
    backward = torch.Tensor.backward

    def timed_backward(loss: Any, *args: Any, **kwargs: Any) -> None:
        # Not the module's own hook: it would be given the loss, which is copied for it then.
        begun = time.perf_counter_ns()
        backward(loss, *args, **kwargs)
        model.computing_ns += time.perf_counter_ns() - begun

    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(torch.Tensor, "backward", timed_backward),
    ):
        trainer = Trainer(
            **{
                "max_steps": steps,
                "accelerator": accelerator,
                "devices": 1,
                **QUIET,
                "default_root_dir": folder,
                **_options(variant, steps, folder, clock, at_setup),
            }
        )
        gc.collect()  # once before the steps, for all that was imported
        trainer.fit(model, _batches(model, KINDS[kind], at_block, pin=accelerator != "cpu"))


def _model(variant: str, shape: StepKind) -> Any:
    """Return linear layers that time their own forward pass and optimizer step."""
    import torch
    from lightning.pytorch import LightningModule

    now = time.perf_counter_ns

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layers = [torch.nn.Linear(shape.width, shape.width) for _ in range(shape.layers)]
            self.layers = torch.nn.Sequential(*layers)
            self.count = self.computing_ns = 0
            self.logs = variant if variant in (ITEM, SELF_LOG) else None

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            begun = now()
            loss = self.layers(batch).sum()
            self.computing_ns += now() - begun
            if self.logs == SELF_LOG:
                self.log("loss", loss)
            elif self.logs == ITEM:
                loss.item()
            return loss

        def configure_optimizers(self) -> Any:
            return Sgd(self.parameters(), lr=1e-6)

    class Sgd(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            loss = closure()
            begun = now()
            super().step()
            model.computing_ns += now() - begun
            return loss

    model = Model()
    return model


def _batches(model: Any, shape: StepKind, at_block: Callable[[Any], None], *, pin: bool) -> Any:
    """Return a loader that hands out one batch again and again, and tells of each block."""
    import torch

    batch = torch.randn(shape.batch, shape.width)
    batch = batch.pin_memory() if pin else batch

    class Endless(torch.utils.data.IterableDataset):
        def __iter__(self) -> Any:
            while True:
                if model.count % shape.block == 0:
                    at_block(model)
                model.count += 1
                yield batch

    return torch.utils.data.DataLoader(Endless(), batch_size=None)


def _options(
    variant: str,
    steps: int,
    folder: str,
    clock: Callable[[], int],
    at_setup: Callable[[Any], object],
) -> dict[str, Any]:
    from lightning.pytorch import Callback, profilers
    from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger

    if variant.startswith(("PhaseTimer", "GpuProf", "DeferredLoss")):
        options = _ours(variant, steps, clock, at_setup)
        return options | ({"logger": TensorBoardLogger(folder)} if variant == TENSORBOARD else {})
    made: dict[str, Callable[[], dict[str, Any]]] = {
        "empty callback": lambda: {"callbacks": [Callback()]},
        LOGGER: lambda: {"logger": TensorBoardLogger(folder)},
        "SimpleProfiler": lambda: {"profiler": profilers.SimpleProfiler(folder)},
        SELF_LOG: lambda: {"logger": CSVLogger(folder)},
    }
    return made[variant]() if variant in made else {}


def _ours(
    variant: str, steps: int, clock: Callable[[], int], at_setup: Callable[[Any], object]
) -> dict[str, Any]:
    from lightning_gpuprof import DeferredLoss, GpuProfCallback, PhaseTimer
    from lightning_gpuprof.runtime.context import RunContext

    class Deferred(DeferredLoss):
        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
            context = RunContext.of(trainer, now=clock)
            super().setup(trainer, pl_module, stage)
            at_setup(context)

    def attached(callback: Any) -> dict[str, Any]:
        """Not a subclass: whose time is ours is told by the class."""
        setup = callback.setup

        def set_up(trainer: Any, *args: Any, **kwargs: Any) -> None:
            setup(trainer, *args, **kwargs)
            at_setup(RunContext.of(trainer))

        callback.setup = set_up
        return {"callbacks": [callback]}

    if variant == "DeferredLoss":
        return {"callbacks": [Deferred()]}
    options: dict[str, Any] = {"overhead_budget": 1.0} if EVERY_STEP in variant else {}
    if NO_MARKS in variant:
        options["device_marks"] = False
    if variant.startswith("PhaseTimer"):
        return attached(PhaseTimer(clock=clock, **options))
    # As above, its window comes after the last step that is timed.
    options |= {"wait": steps, "warmup": 1, "active": 1, "report": False}
    options["lines"] = variant == LINES
    return attached(GpuProfCallback(clock=clock, **options)) | {"max_steps": steps + 2}
