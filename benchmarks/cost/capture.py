"""How long training stands still at the end of a profiler window, beside torch's own ways.

python benchmarks/cost/capture.py [--window small|deep_everything_on] [--rounds 25]

The floor is Kineto's own stop and JSON export. Ours (stop, export, compression, record) takes turns
with it in one process, over windows of the same steps. Then, once each, the ways of tutorials:
torch's own `.json.gz` export, and that with the operator table printed on the training thread.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import Children, Spread, interleaved, one_thread, write_results

one_thread()  # torch is imported later, by the children

STEPS = 5
WINDOWS = {
    "small": {"layers": 4, "everything": False, "rounds": 25},
    "deep_everything_on": {"layers": 24, "everything": True, "rounds": 5},
}
SLOW = ("torch_gzip", "torch_gzip_and_table")


def stalls(layers: int, everything: bool, rounds: int) -> dict[str, list[float]]:
    """Return the milliseconds of each window's end, ours and the floor in turn."""
    step, options = _training(layers), _options(everything)
    _plain(step, options)  # the first window of a process pays for what is loaded once
    return interleaved(
        {"torch_plain": lambda: _plain(step, options), "ours": lambda: _ours(step, options)},
        rounds=rounds,
    )


def slow_stall(variant: str, layers: int, everything: bool) -> float:
    """Return the milliseconds that one window's end takes in one of torch's slower ways."""
    return _plain(
        _training(layers), _options(everything), suffix=".json.gz", table=variant.endswith("table")
    )


def _training(layers: int) -> Callable[[], None]:
    import torch

    model = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
        layers,
        enable_nested_tensor=False,
    )
    optimizer = torch.optim.AdamW(model.parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.randn(8, 32, 64)).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    return step


def _options(everything: bool) -> dict[str, bool]:
    return {"record_shapes": everything, "profile_memory": everything, "with_stack": everything}


def _plain(
    step: Callable[[], None],
    options: dict[str, bool],
    *,
    suffix: str = ".json",
    table: bool = False,
) -> float:
    import torch

    profiler = torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        with_modules=options["with_stack"],  # as ours has it
        **options,
    )
    with tempfile.TemporaryDirectory() as folder:
        profiler.start()
        for number in range(STEPS):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step()
        begun = time.perf_counter_ns()
        profiler.stop()
        profiler.export_chrome_trace(os.path.join(folder, "t" + suffix))
        if table:
            profiler.key_averages().table(row_limit=20)
        return (time.perf_counter_ns() - begun) / 1e6


def _ours(step: Callable[[], None], options: dict[str, bool]) -> float:
    from lightning_gpuprof.capture.trace_files import TraceFiles

    with tempfile.TemporaryDirectory() as folder:
        output = SimpleNamespace(
            rank=0, session=0, run_dir=folder, write=lambda record: None, flush=lambda: None
        )
        return _record(step, options, TraceFiles(output, keep=None, shrinkers=""))


def _record(step: Callable[[], None], options: dict[str, bool], files: Any) -> float:
    from lightning_gpuprof.adapters.profiler import TorchTrace
    from lightning_gpuprof.capture.cycles import Recorded

    trace = TorchTrace(device_type="cpu", on_intruder=lambda: None, **options)
    trace.prepare()
    trace.start()
    for number in range(STEPS):
        trace.begin_step(number)
        step()
        trace.end_step()
    begun = time.perf_counter_ns()
    trace.stop()
    files.save(Recorded(0, 0, STEPS - 1, trace, 0, True))
    return (time.perf_counter_ns() - begun) / 1e6


def measure(children: Children, window: dict[str, Any], rounds: int | None) -> dict[str, Any]:
    """Return all figures of one window."""
    size = window["layers"], window["everything"]
    figures = children.call(stalls, *size, rounds or window["rounds"])
    pairs = zip(figures["ours"], figures["torch_plain"], strict=True)
    spreads = {variant: Spread.of(values) for variant, values in figures.items()}
    for variant in SLOW:
        spreads[variant] = Spread.of([children.call(slow_stall, variant, *size)])
    floor = spreads["torch_plain"].median
    return {
        "stall_ms": {
            variant: spread.as_dict() | {"times_floor": spread.median / floor}
            for variant, spread in spreads.items()
        },
        "ours_times_floor_by_pair": Spread.of(ours / plain for ours, plain in pairs).as_dict(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--window", choices=list(WINDOWS), action="append")
    parser.add_argument("--rounds", type=int, help="pairs of windows (default: 25 and 5)")
    args = parser.parse_args()
    results = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        tested = "lightning_gpuprof.capture.trace_files"
        children = Children("torch", tested, log=Path(log.name))
        for name in args.window or WINDOWS:
            results[name] = measure(children, WINDOWS[name], args.rounds)
            print(f"\n{name}: training stands still, ms (median, range; times the floor)")
            for variant, row in results[name]["stall_ms"].items():
                print(
                    f"  {variant:22} {row['median']:9.1f}  {row['low']:.1f}-{row['high']:.1f}"
                    f"  {row['times_floor']:5.2f}x"
                )
            pair = results[name]["ours_times_floor_by_pair"]
            print(f"  ours over floor, pair by pair: {pair['median']:.3f}x", end="")
            print(f" ({pair['low']:.2f}-{pair['high']:.2f})")
    print(write_results("capture", {"unit": "ms", "windows": results}))


if __name__ == "__main__":
    main()
