"""How long training stands still at the end of a profiler window, beside torch's own ways.

python benchmarks/cost/capture.py [--window small|deep_everything_on] [--rounds 5]

The floor is Kineto's own stop and JSON export, by a callback that steps a torch.profiler. The other
variants are GpuProfCallback and what tutorials do instead: torch's own `.json.gz` export. Each
trains the same model through the same windows in a process of its own, in turns. A stall is the
longest step of a window's cycle less the median step.
"""

import statistics
import sys
import tempfile
import time
from argparse import ArgumentParser
from functools import partial
from itertools import pairwise
from operator import truediv
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import QUIET, Children, Spread, interleaved, one_thread, write_results

WINDOWS = {"small": (4, False), "deep_everything_on": (24, True)}
"""Layers of the model, and whether everything is recorded."""
VARIANTS = ("torch_plain", "ours", "torch_gzip")
WAIT, WARM_UP, ACTIVE, CYCLES = 10, 4, 5, 4
CYCLE = WARM_UP + ACTIVE


def stall_ms(variant: str, layers: int, everything: bool) -> float:
    """Return the median stall of the windows of one fit, but for the first."""
    import torch
    from lightning.pytorch import Callback, LightningModule, Trainer
    from torch.utils.data import DataLoader

    options = {"record_shapes": everything, "profile_memory": everything, "with_stack": everything}
    steps = WAIT + CYCLE * CYCLES + WAIT

    class Model(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
            self.net = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
            self.began_ns: list[int] = []

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.began_ns.append(time.perf_counter_ns())
            return self.net(batch).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    class Plain(Callback):
        """Steps a torch.profiler as its documentation says."""

        def on_train_start(self, *_: Any) -> None:
            suffix = ".json.gz" if variant == "torch_gzip" else ".json"
            self.profiler = torch.profiler.profile(
                schedule=torch.profiler.schedule(
                    skip_first=WAIT, wait=0, warmup=WARM_UP, active=ACTIVE, repeat=CYCLES
                ),
                on_trace_ready=lambda one: one.export_chrome_trace(f"{folder}/trace{suffix}"),
                with_modules=everything,  # as ours has it
                **options,
            )
            self.profiler.start()

        def on_train_batch_end(self, *_: Any) -> None:
            self.profiler.step()

        def on_train_end(self, *_: Any) -> None:
            self.profiler.stop()

    def callback() -> Callback:
        if variant != "ours":
            return Plain()
        from lightning_gpuprof import GpuProfCallback

        window = {"wait": WAIT, "warmup": WARM_UP, "active": ACTIVE, "repeat": CYCLES - 1}
        quiet = {"report": False, "console": False, "lines": False}
        return GpuProfCallback(**window, **quiet, **options)

    with tempfile.TemporaryDirectory() as folder:
        model = Model()
        trainer = Trainer(
            max_steps=steps,
            accelerator="cpu",
            callbacks=[callback()],
            default_root_dir=folder,
            **QUIET,
        )
        trainer.fit(model, DataLoader([torch.randn(8, 32, 64)] * steps, batch_size=None))
    return statistics.median(stalls_ns(model.began_ns)) / 1e6


def stalls_ns(began_ns: list[int]) -> list[float]:
    """Return how much longer the longest step of each cycle took than the median step."""
    took = [end - begin for begin, end in pairwise(began_ns)]
    usual = statistics.median(took)
    # The first window of a process pays for what is loaded once.
    begins = range(WAIT + CYCLE + WARM_UP, WAIT + CYCLE * CYCLES, CYCLE)
    return [max(took[begin : begin + CYCLE]) - usual for begin in begins]


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--window", choices=list(WINDOWS), action="append")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    one_thread()
    results: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        children = Children("torch", "lightning.pytorch", log=Path(log.name))
        for name in args.window or WINDOWS:
            variants = {
                one: partial(children.call, stall_ms, one, *WINDOWS[name]) for one in VARIANTS
            }
            figures = interleaved(variants, rounds=args.rounds)
            results[name] = {}
            print(f"{name}: training stands still, ms (range; times the floor, by rounds)")
            for one, each in figures.items():
                times = map(truediv, each, figures["torch_plain"])
                row = {**Spread.of(each).as_dict(), "times_floor": statistics.median(times)}
                results[name][one] = row
                span = f"{row['median']:9.1f}  {row['low']:.1f}-{row['high']:.1f}"
                print(f"  {one:12} {span}  {row['times_floor']:5.2f}x", flush=True)
    print(write_results("capture", {"unit": "ms", "windows": results}))


if __name__ == "__main__":
    main()
