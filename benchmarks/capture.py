"""How long training stands still at the end of a profiler window, beside torch's own ways.

python benchmarks/capture.py [--rounds 7]

Variants: torch's stop and plain JSON export (the floor), ours (stop, export, record, start of
the finishing process), torch's own `.json.gz` export, and that with the operator table that
tutorials print on the training thread.
"""

import argparse
import gzip
import os
import tempfile
import time
import zlib
from pathlib import Path

from _harness import Children, Spread, interleaved, one_thread, write_results

one_thread()  # torch is imported later, by the children

VARIANTS = ("torch_plain", "ours", "torch_gzip", "torch_gzip_and_table")
WINDOWS = {
    "small": {"layers": 4, "steps": 5, "everything": False},
    "deep_everything_on": {"layers": 24, "steps": 5, "everything": True},
}


def stall_ms(variant: str, layers: int, steps: int, everything: bool) -> float:
    """Record one window in this process and return how long its end took."""
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
    options = {"record_shapes": everything, "profile_memory": everything, "with_stack": everything}
    with tempfile.TemporaryDirectory() as folder:
        if variant == "ours":
            return _ours(step, steps, folder, options)
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], **options
        )
        profiler.start()
        for _ in range(steps):
            step()
        begun = time.perf_counter_ns()
        profiler.stop()
        suffix = ".json" if variant == "torch_plain" else ".json.gz"
        profiler.export_chrome_trace(os.path.join(folder, "t" + suffix))
        if variant == "torch_gzip_and_table":
            profiler.key_averages().table(row_limit=20)
        return (time.perf_counter_ns() - begun) / 1e6


def _ours(step, steps, folder, options) -> float:
    from types import SimpleNamespace

    from lightning_gpuprof.callbacks.cycles import Recorded
    from lightning_gpuprof.callbacks.trace_files import TraceFiles
    from lightning_gpuprof.callbacks.trace_finisher import TraceFinisher
    from lightning_gpuprof.probes.torch_trace import TorchTrace

    output = SimpleNamespace(
        rank=0, session=0, step=0, run_dir=folder, write=lambda record: None, flush=lambda: None
    )
    finisher = TraceFinisher()
    files = TraceFiles(output, finisher, keep=None, shrinkers="")
    trace = TorchTrace(device_type="cpu", on_intruder=lambda: None, **options)
    trace.prepare()
    trace.start()
    for number in range(steps):
        trace.begin_step(number)
        step()
        trace.end_step()
    begun = time.perf_counter_ns()
    trace.stop()
    files.save(Recorded(0, 0, steps - 1, trace, 0, True))
    stalled = (time.perf_counter_ns() - begun) / 1e6
    if left := finisher.wait(120):
        raise RuntimeError(f"not finished within two minutes: {left}")
    if failed := finisher.failures():
        raise RuntimeError(str(failed))
    packed = next(Path(folder).rglob("*.pt.trace.json.gz"))
    smallest = len(zlib.compress(gzip.decompress(packed.read_bytes()), 9))
    ratio = packed.stat().st_size / smallest
    if ratio > 1.7:
        raise RuntimeError(f"{packed.name} is {ratio:.2f} times its level-9 size")
    return stalled


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    results = {}
    with tempfile.NamedTemporaryFile(suffix=".log") as log:
        children = Children("torch", "lightning_gpuprof.callbacks.trace_files", log=Path(log.name))
        for name, window in WINDOWS.items():
            arguments = tuple(window.values())
            figures = interleaved(
                {
                    v: (lambda v=v, arguments=arguments: children.call(stall_ms, v, *arguments))
                    for v in VARIANTS
                },
                rounds=rounds,
            )
            spreads = {variant: Spread.of(values) for variant, values in figures.items()}
            floor = spreads["torch_plain"].median
            print(f"\n{name}: training stands still, ms (median, range; times the floor)")
            for variant, spread in spreads.items():
                print(
                    f"  {variant:22} {spread.median:9.1f}  {spread.low:.1f}-{spread.high:.1f}"
                    f"  {spread.median / floor:5.2f}x"
                )
            results[name] = {
                variant: spread.as_dict() | {"times_floor": spread.median / floor}
                for variant, spread in spreads.items()
            }
    print(write_results("capture", {"unit": "ms", "windows": results}))


if __name__ == "__main__":
    main()
