"""What the Trainer's calls around a step cost alone, without the step: see benchmarks/overhead.py.

In a loop of short steps the figures of whole steps carry ten microseconds of noise. Here, in the
middle of a fit, one step's calls of the Trainer's profiler and of its callbacks' hooks are made
some thousand times over. All is in the processor's caches, so these are lower bounds.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROUNDS, REPEATS = 7, 300
LAST_BATCH = 5
NEVER = 10**6
NOW_CALLS = 6


def dispatch_ns() -> dict[str, float]:
    """Return the ns per step of the profiler's calls and of callbacks' hooks."""
    from lightning.pytorch import Callback

    from lightning_gpuprof import GpuProfCallback, PhaseTimer

    late = {"wait": NEVER, "warmup": 1, "active": 1}
    made: dict[str, Callable[[], list[Any]]] = {
        "bare Trainer": list,
        "empty callback": lambda: [Callback()],
        "PhaseTimer": lambda: [PhaseTimer()],
        "GpuProfCallback": lambda: [GpuProfCallback(**late, report=False)],
    }
    figures = {f"{name}: {what}": ns for name in made for what, ns in _one(made[name]()).items()}
    figures[f"{NOW_CALLS} timestamps"] = _median_ns(_timestamps)
    return figures


def _one(callbacks: list[Any]) -> dict[str, float]:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.profilers import Profiler
    from lightning.pytorch.trainer.call import _call_callback_hooks

    figures: dict[str, float] = {}
    order: list[tuple[bool, str]] = []

    class Recording(Profiler):
        def start(self, action_name: str) -> None:
            order.append((True, action_name))

        def stop(self, action_name: str) -> None:
            order.append((False, action_name))

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            loss = self.layer(batch).sum()
            if batch_idx == LAST_BATCH and not isinstance(self.trainer.profiler, Recording):
                self.measure(batch, batch_idx, loss)
            if batch_idx == LAST_BATCH:
                self.trainer.should_stop = True
            return loss

        def measure(self, batch: Any, batch_idx: int, loss: Any) -> None:
            trainer, (optimizer,) = self.trainer, self.trainer.optimizers
            hooks = (
                ("on_train_batch_start", (batch, batch_idx)),
                ("on_before_zero_grad", (optimizer,)),
                ("on_before_backward", (loss,)),
                ("on_after_backward", ()),
                ("on_before_optimizer_step", (optimizer,)),
                ("on_train_batch_end", ({"loss": loss.detach()}, batch, batch_idx)),
            )

            def call_hooks() -> None:
                for name, args in hooks:
                    _call_callback_hooks(trainer, name, *args)

            def nested() -> None:
                opened = []
                for opens, name in order:
                    if opens:
                        context = trainer.profiler.profile(name)
                        context.__enter__()
                        opened.append(context)
                    else:
                        opened.pop().__exit__(None, None, None)

            figures["the profiler's regions"] = _median_ns(nested)
            figures["callbacks' hooks"] = _median_ns(call_hooks)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def run(callbacks: list[Any], profiler: Any) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                accelerator="cpu", logger=False, max_steps=2 * NEVER, default_root_dir=folder,
                callbacks=callbacks, profiler=profiler, enable_progress_bar=False,
                enable_checkpointing=False, enable_model_summary=False,
            )  # fmt: skip
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.zeros(64, 4), batch_size=4))

    run([], Recording())
    order[:] = _inside_a_step(order)
    run(callbacks, None)
    return figures


def _inside_a_step(order: list[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """Return the calls of one step without those at its borders, which the timers act on."""
    fetch = "[_TrainingEpochLoop].train_dataloader_next"
    begins = [at for at, call in enumerate(order) if call == (True, fetch)]
    step = order[begins[2] : begins[3]]
    return [call for call in step if call[1] not in (fetch, "run_training_batch")]


def _timestamps() -> None:
    for _ in range(NOW_CALLS):
        time.perf_counter_ns()


def _median_ns(call: Callable[[], None]) -> float:
    figures = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(REPEATS):
            call()
        figures.append((time.perf_counter_ns() - begin) / REPEATS)
    return statistics.median(figures)
