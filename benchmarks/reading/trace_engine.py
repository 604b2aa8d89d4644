"""CPU seconds and peak memory of `analyze` on traces of 1 MB to 1 GB, beside peers and the floor.

    python benchmarks/reading/trace_engine.py [--hta PYTHON] [--tb PYTHON] [--parts sizes ...]

Needs real traces in ../shared/traces, and for the peers a Python each with
HolisticTraceAnalysis or torch-tb-profiler: they are no dependency of ours. With both, `sizes` takes
about four minutes.

- `sizes`: every contender as a process of its own, in turn, so that a busy machine slows all
  alike; medians. `floor` is isal decompression and a msgspec typed decode of the whole text:
  what any reader that uses them must at least do. From 100 MB on peers run once, on 1 GB not.
- `stacks`: MB/s on a trace with Python stacks that are not asked for.
- `linearity`: generated traces of 10^4 to 10^7 events, microseconds per event. Only on demand:
  making them takes minutes.

CPU seconds are a process's own and the system's for it. Peak memory is its largest resident set.
Modules are compiled beforehand, as those of an installed package are. NumPy starts no threads for
linear algebra, which no contender uses: as they start, they wait busily for 0.1 CPU seconds.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import RESULTS, one_thread, write_results

HERE = Path(__file__).parent
SHARED = HERE.parents[2] / "shared" / "traces" / "kineto"
SMALL = SHARED / "tracelens-h100" / "gaunernst_bert-small-uncased__1016001.json.gz"
MEDIUM = SHARED / "hta" / "negative_queue_length_values_check" / "rank0.json.gz"
LARGE = SHARED / "hta" / "trace_diff" / "control" / "control.json.gz"
DENSE = SHARED / "hta" / "nccl_parser_config" / "nccl_data.json.gz"
SOURCES = {1: SMALL, 25: MEDIUM, 54: MEDIUM, 105: DENSE, 140: LARGE, 527: DENSE, 1000: LARGE}
USUAL = (1, 54, 105, 527)
STACKS = SHARED / "tracelens-h100" / "facebook_timesformer-base-finetuned-k400__1016002.json.gz"
STACKS_MB = 140
EVENTS = (10**4, 10**5, 10**6, 10**7)

FLOOR = """
import gc, re, sys
gc.disable()
import msgspec
from isal import igzip
class Args(msgspec.Struct, gc=False):
    correlation: int | None = None
    device: int | None = None
    stream: int | None = None
    bytes: int | None = None
class Event(msgspec.Struct, gc=False):
    ph: str
    name: str = ""
    cat: str = ""
    pid: int | str = 0
    tid: int | str = 0
    ts: float = 0
    dur: float = 0
    args: Args | None = None
data = igzip.open(sys.argv[1], "rb").read()
class Trace(msgspec.Struct, gc=False):
    traceEvents: list[Event] = []
msgspec.json.Decoder(Trace).decode(data)
"""
HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_files={0: sys.argv[1]})
t.get_temporal_breakdown(visualize=False)
t.get_gpu_kernel_breakdown(visualize=False)
t.get_idle_time_breakdown(ranks=[0], visualize=False)
"""
TB = """
import sys
from torch_tb_profiler.io.cache import Cache
from torch_tb_profiler.profiler.data import RunProfileData
RunProfileData.parse("worker", "1", sys.argv[1], Cache())
"""


class Use(NamedTuple):
    """What a process took."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def measure(command: list[str]) -> Use:
    """Run a process to its end."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:3]} failed with status {process.returncode}.")
    return Use(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def ours(path: Path) -> list[str]:
    command = [sys.executable, "-m", "lightning_gpuprof.cli", "analyze", "--json"]
    return [*command, "--no-stacks", str(path)]


def contenders(path: Path, args: argparse.Namespace, size: int) -> dict[str, tuple[list[str], int]]:
    """Return each contender's command and how often it runs."""
    peers = 3 if size < 100 else 1 if size < 1000 else 0
    commands = {
        "floor": ([sys.executable, "-c", FLOOR, str(path)], 5),
        "analyze": (ours(path), 5),
    }
    if args.hta:
        commands["HTA"] = ([args.hta, "-c", HTA, str(path)], peers)
    if args.tb:
        commands["torch-tb-profiler"] = ([args.tb, "-c", TB, str(path)], peers)
    return {name: (command, often) for name, (command, often) in commands.items() if often}


def compiled(folder: Path, args: argparse.Namespace) -> None:
    """Run every contender once, so that its modules are compiled, as an installed package's are."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
    for command, _ in contenders(SMALL.resolve(), args, 1).values():
        measure(command)


def sizes(folder: Path, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for target in args.sizes:
        path = folder / f"{target}mb.json.gz"
        size = make(str(SOURCES[target]), target, path)
        commands = contenders(path, args, target)
        runs: dict[str, list[Use]] = {name: [] for name in commands}
        for turn in range(max(often for _, often in commands.values())):
            for name, (command, often) in commands.items():
                if turn < often:
                    runs[name].append(measure(command))
        floor = statistics.median(use.cpu_s for use in runs["floor"])
        for name, uses in runs.items():
            cpu = [use.cpu_s for use in uses]
            yield {
                "trace_mb": round(size, 1),
                "contender": name,
                "cpu_s": round(statistics.median(cpu), 3),
                "low_s": round(min(cpu), 3),
                "high_s": round(max(cpu), 3),
                "wall_s": round(statistics.median(use.wall_s for use in uses), 3),
                "runs": len(uses),
                "peak_mb": round(statistics.median(use.peak_mb for use in uses)),
                "times_floor": round(statistics.median(cpu) / floor, 2),
            }
        path.unlink()


def stacks(folder: Path, _args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    path = folder / "stacks.json.gz"
    size = make(str(STACKS), STACKS_MB, path)
    cpu = statistics.median(measure(ours(path)).cpu_s for _ in range(5))
    yield {"trace_mb": round(size, 1), "cpu_s": round(cpu, 3), "mb_per_s": round(size / cpu)}
    path.unlink()


def linearity(folder: Path, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for events in args.events:
        path = folder / f"{events}.json"
        size = make("generated", events, path)
        runs = [measure(ours(path)) for _ in range(3 if events < 10**7 else 1)]
        cpu = statistics.median(use.cpu_s for use in runs)
        yield {
            "events": events,
            "trace_mb": round(size, 1),
            "cpu_s": round(cpu, 3),
            "us_per_event": round(cpu / events * 1e6, 2),
            "peak_mb": round(max(use.peak_mb for use in runs)),
        }
        path.unlink()


def make(what: str, amount: int, target: Path) -> float:
    """Make a trace in a process of its own; return its size in MB."""
    command = [sys.executable, str(HERE / "_traces.py"), what, str(amount), str(target)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


PARTS = {"sizes": sizes, "stacks": stacks, "linearity": linearity}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=["sizes", "stacks"])
    parser.add_argument("--sizes", nargs="+", type=int, default=USUAL, metavar="MB")
    parser.add_argument("--events", nargs="+", type=int, default=EVENTS, metavar="N")
    parser.add_argument("--hta", metavar="PYTHON", default=os.environ.get("HTA_PYTHON"))
    parser.add_argument("--tb", metavar="PYTHON", default=os.environ.get("TB_PYTHON"))
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="FOLDER")
    args = parser.parse_args()
    if not SHARED.is_dir():
        raise SystemExit(f"No real traces in {SHARED}: nothing to measure.")
    one_thread()
    results: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        compiled(Path(folder), args)
        for part in args.parts:
            results[part] = []
            for row in PARTS[part](Path(folder), args):
                results[part].append(row)
                print("  ".join(f"{key} {value}" for key, value in row.items()), flush=True)
    path = write_results("trace-engine", results, folder=args.results)
    print(f"written to {path}")


if __name__ == "__main__":
    main()
