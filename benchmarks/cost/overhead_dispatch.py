"""What the Trainer's calls around a step cost alone, without the step: see overhead.py.

In the middle of a fit all that the Trainer calls in one step (its profiler, callbacks' hooks, the
class of a step's results, without what is trained) is called many times over, as so many steps.

*Warm*: one after the other. It is all in the processor's caches, so these are lower bounds, but
without noise. *Cold*: memory is gone through in the place of the forward pass, the backward pass
and the optimizer, as by a step that computes for long: three times a step nothing is left in the
caches. What is measured is taken out of the Trainer and put back from step to step, in random
order, so that one process, whose memory lies as it does, has both.
"""

import random
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from overhead_toggle import Switch

COLD_PAIRS, COLD_BYTES = 300, 24 << 20
ROUNDS, REPEATS, SETTLED = 9, 500, 1_000
LAST_BATCH = 5
NEVER = 10**6
NOW_CALLS = 6
COLD = ("empty callback", "PhaseTimer", "DeferredLoss", "GpuProfCallback", "SimpleProfiler")
FETCH = "[_TrainingEpochLoop].train_dataloader_next"


def dispatch_ns() -> dict[str, float]:
    """Return the ns per step of all that is called, by what is in the Trainer: warm."""
    figures = {
        name: _measured(callbacks(), _median_ns)
        for name, callbacks in _made(overhead_budget=0.005).items()
    }
    figures[f"{NOW_CALLS} timestamps"] = _median_ns(_timestamps)
    return figures


def cold_dispatch_ns(name: str) -> list[float]:
    """Return the ns that a cold step takes more with one of `COLD` than without, of each pair.

    Every step is marked, as nearly all are that compute for long.
    """
    pairs: list[float] = _measured(_made(overhead_budget=1.0)[name](), _cold_pairs_ns)
    return pairs


def _made(*, overhead_budget: float) -> dict[str, Callable[[], dict[str, Any]]]:
    from lightning.pytorch import Callback, profilers

    from lightning_gpuprof import DeferredLoss, GpuProfCallback, PhaseTimer

    budget = {"overhead_budget": overhead_budget, "console": False}
    late = {"wait": NEVER, "warmup": 1, "active": 1, "report": False, "lines": False}
    return {
        "bare Trainer": dict,
        "empty callback": lambda: {"callbacks": [Callback()]},
        "PhaseTimer": lambda: {"callbacks": [PhaseTimer(**budget)]},
        "DeferredLoss": lambda: {"callbacks": [DeferredLoss()]},
        "GpuProfCallback": lambda: {"callbacks": [GpuProfCallback(**late, **budget)]},
        "SimpleProfiler": lambda: {"profiler": profilers.SimpleProfiler()},
    }


def _measured(options: dict[str, Any], measure: Callable[[Callable[[], None], Any], Any]) -> Any:
    import torch
    from lightning.pytorch import LightningModule, Trainer
    from lightning.pytorch.profilers import Profiler
    from lightning.pytorch.trainer.call import _call_callback_hooks

    figures: list[Any] = []
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
            results = loop.automatic_optimization
            hooks: dict[str, tuple[Any, ...]] = {
                "on_train_batch_start": (batch, batch_idx),
                "on_before_zero_grad": (optimizer,),
                "on_before_backward": (loss,),
                "on_after_backward": (),
                "on_before_optimizer_step": (optimizer,),
                "on_train_batch_end": ({"loss": loss.detach()}, batch, batch_idx),
            }
            plan = [(opens, name, *_of(name)) for opens, name in order]
            open_now: dict[str, float] = getattr(trainer.profiler, "current_actions", {})
            kept = dict(open_now)  # a SimpleProfiler opens no action that is open already
            open_now.clear()

            def step(computing: Callable[[], None] | None = None) -> None:
                opened = []
                for opens, name, owner, what in plan:
                    if name == FETCH:
                        fetcher._start_profiler() if opens else fetcher._stop_profiler()
                        continue
                    if opens:
                        if computing is not None and what == "on_after_backward":
                            computing()
                        if owner == "LightningModule" and what in hooks:
                            _call_callback_hooks(trainer, what, *hooks[what])
                        context = trainer.profiler.profile(name)
                        context.__enter__()
                        opened.append(context)
                        if computing is not None and what == "training_step":
                            computing()
                        continue
                    if computing is not None and what == "optimizer_step":
                        computing()
                    if what == "batch_to_device":
                        batch.to(batch.device)
                    opened.pop().__exit__(None, None, None)
                    if what == "training_step":
                        results.output_result_cls.from_training_step_output(loss, 1)
                loop._batches_that_stepped += 1
                for count in ("ready", "completed"):
                    total = loop.batch_progress.total
                    setattr(total, count, getattr(total, count) + 1)

            for _ in range(SETTLED):
                step()
            figures.append(measure(step, self))
            open_now.update(kept)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1e-6)

    def run(options: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trainer = Trainer(
                accelerator="cpu", logger=False, max_steps=2 * NEVER, default_root_dir=folder,
                enable_progress_bar=False, enable_checkpointing=False, enable_model_summary=False,
                **options,
            )  # fmt: skip
            trainer.fit(Model(), torch.utils.data.DataLoader(torch.zeros(64, 4), batch_size=4))

    run({"profiler": Recording()})
    begins = [at for at, call in enumerate(order) if call == (True, FETCH)]
    order[:] = order[begins[2] : begins[3]]
    run(options)
    return figures[0]


def _of(name: str) -> tuple[str, str]:
    """Return whose action it is and what is done: `[Strategy]SingleDevice.backward`."""
    owner, found, what = name.removeprefix("[").partition("]")
    return (owner, what.rpartition(".")[2]) if found else ("", name)


def _timestamps() -> None:
    for _ in range(NOW_CALLS):
        time.perf_counter_ns()


def _cold_pairs_ns(step: Callable[..., None], model: Any) -> list[float]:
    import numpy as np

    model.logs = None
    memory, chance = np.ones(COLD_BYTES // 8), random.Random(0)
    switch = Switch(model)
    computing_ns = 0

    def compute() -> None:
        nonlocal computing_ns
        begin = time.perf_counter_ns()
        np.add(memory, 1.0, out=memory)
        computing_ns += time.perf_counter_ns() - begin

    pairs: list[dict[bool, int]] = []
    for _ in range(COLD_PAIRS):
        pairs.append({})
        for on in chance.sample((True, False), 2):
            switch.turn(on=on)
            compute()
            begin, computing_ns = time.perf_counter_ns(), 0
            step(compute)
            pairs[-1][on] = time.perf_counter_ns() - begin - computing_ns
    switch.turn(on=True)
    return [pair[True] - pair[False] for pair in pairs]


def _median_ns(call: Callable[[], None], model: Any = None) -> float:
    figures = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(REPEATS):
            call()
        figures.append((time.perf_counter_ns() - begin) / REPEATS)
    return statistics.median(figures)
