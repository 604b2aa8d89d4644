"""What the Trainer's calls around a step cost alone, without the step: see overhead.py.

In the middle of a fit all that the Trainer calls in one step (its profiler, callbacks' hooks, the
class of a step's results, without what is trained) is called some thousand times over, as so many
steps. It is all in the processor's caches, so these are lower bounds, but without noise.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

ROUNDS, REPEATS, SETTLED = 9, 500, 1_000
LAST_BATCH = 5
NEVER = 10**6
NOW_CALLS = 6
FETCH, BATCH = "[_TrainingEpochLoop].train_dataloader_next", "run_training_batch"


def dispatch_ns() -> dict[str, float]:
    """Return the ns per step of all that is called, by what is in the Trainer."""
    from lightning.pytorch import Callback

    from lightning_gpuprof import DeferredLoss, GpuProfCallback, PhaseTimer

    late = {"wait": NEVER, "warmup": 1, "active": 1, "report": False, "lines": False}
    made: dict[str, Callable[[], list[Any]]] = {
        "bare Trainer": list,
        "empty callback": lambda: [Callback()],
        "PhaseTimer": lambda: [PhaseTimer(console=False)],
        "DeferredLoss": lambda: [DeferredLoss()],
        "GpuProfCallback": lambda: [GpuProfCallback(**late, console=False)],
    }
    figures = {name: _one(callbacks()) for name, callbacks in made.items()}
    figures[f"{NOW_CALLS} timestamps"] = _median_ns(_timestamps)
    return figures


def _one(callbacks: list[Any]) -> float:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.profilers import Profiler
    from lightning.pytorch.trainer.call import _call_callback_hooks

    figures: list[float] = []
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
            if batch_idx == LAST_BATCH:
                if not isinstance(self.trainer.profiler, Recording):
                    self.measure(batch, batch_idx, loss)
                self.trainer.should_stop = True
            return loss

        def measure(self, batch: Any, batch_idx: int, loss: Any) -> None:
            trainer, (optimizer,) = self.trainer, self.trainer.optimizers
            loop, fetcher = trainer.fit_loop.epoch_loop, trainer.fit_loop._data_fetcher
            inside = (
                ("on_before_zero_grad", (optimizer,)),
                ("on_before_backward", (loss,)),
                ("on_after_backward", ()),
                ("on_before_optimizer_step", (optimizer,)),
            )
            outputs = {"loss": loss.detach()}

            def step() -> None:
                opened = []
                for opens, name in order:
                    if name == FETCH:
                        fetcher._start_profiler() if opens else fetcher._stop_profiler()
                    elif opens:
                        if name == BATCH:
                            _call_callback_hooks(trainer, "on_train_batch_start", batch, batch_idx)
                        context = trainer.profiler.profile(name)
                        context.__enter__()
                        opened.append(context)
                    else:
                        if name == BATCH:
                            results = loop.automatic_optimization.output_result_cls
                            results.from_training_step_output(loss, 1)
                            for hook, args in inside:
                                _call_callback_hooks(trainer, hook, *args)
                        opened.pop().__exit__(None, None, None)
                _call_callback_hooks(trainer, "on_train_batch_end", outputs, batch, batch_idx)
                loop._batches_that_stepped += 1
                for count in ("ready", "completed"):
                    total = loop.batch_progress.total
                    setattr(total, count, getattr(total, count) + 1)

            for _ in range(SETTLED):
                step()
            figures.append(_median_ns(step))

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
    begins = [at for at, call in enumerate(order) if call == (True, FETCH)]
    order[:] = order[begins[2] : begins[3]]
    run(callbacks, None)
    return figures[0]


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
