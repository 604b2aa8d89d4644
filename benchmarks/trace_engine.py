"""Seconds and peak memory of `analyze` on traces of 1 to 527 MB, beside peers and the floor.

    python benchmarks/trace_engine.py [--sizes 1 25 54 140 527] [--repeats 5]
        [--hta PYTHON] [--tb PYTHON] [--json FILE]

Every contender runs as a process of its own, interleaved, so that a busy machine slows all
alike; the median is reported. `floor` is isal decompression and a msgspec typed decode of the
whole text: what any reader that uses them must at least do. HTA and torch-tb-profiler run in the
Python that is given, where they are installed; they are no dependency of ours.

Traces are real ones from ../shared/traces, the larger ones repeated with shifted times and ids.
"""

import argparse
import gzip
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parents[1]
SHARED = HERE.parent / "shared" / "traces" / "kineto"
SOURCES = {
    1: SHARED / "tracelens-h100" / "gaunernst_bert-small-uncased__1016001.json.gz",
    25: SHARED / "hta" / "negative_queue_length_values_check" / "rank0.json.gz",
    54: SHARED / "hta" / "negative_queue_length_values_check" / "rank0.json.gz",
    140: SHARED / "hta" / "trace_diff" / "control" / "control.json.gz",
    527: SHARED / "hta" / "nccl_parser_config" / "nccl_data.json.gz",
}
EVENTS = re.compile(rb'"traceEvents"\s*:\s*\[')
NUMBERS = re.compile(rb'("ts": |"correlation": |"External id": |"id": )(\d+)')
IDS_APART = 10_000_000

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
start = re.search(rb'"traceEvents"\\s*:\\s*\\[', data).end() - 1
class Trace(msgspec.Struct, gc=False):
    traceEvents: list[Event] = []
msgspec.json.Decoder(Trace).decode(data)
"""
JSON_LOAD = "import gzip, json, sys; json.load(gzip.open(sys.argv[1]))"
HTA = """
import sys
from hta.common.trace import Trace
from hta.trace_analysis import TraceAnalysis
t = TraceAnalysis(trace_files={0: sys.argv[1]})
t.get_temporal_breakdown(visualize=False)
t.get_gpu_kernel_breakdown(visualize=False)
t.get_idle_time_breakdown(ranks=[0], visualize=False)
"""
TB = """
import sys, os
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.io.cache import Cache
RunProfileData.parse("worker", "1", sys.argv[1], Cache())
"""


def make_trace(source: Path, target_mb: int, folder: Path) -> Path:
    """Repeat a trace's events until they are about that long."""
    data = gzip.decompress(source.read_bytes())
    head = EVENTS.search(data).end()
    tail = _end_of_events(data, head)
    body = data[head:tail]
    times = [int(found) for found in re.findall(rb'"ph": "X".*?"ts": (\d+)', body, re.DOTALL)]
    apart = max(times) - min(times) + 10_000
    path = folder / f"trace{target_mb}.json.gz"
    with gzip.open(path, "wb", compresslevel=4) as file:
        file.write(data[:head])
        for copy in range(max(1, round(target_mb * 1e6 / len(data)))):

            def moved(found: "re.Match[bytes]", copy: int = copy) -> bytes:
                shift = apart if found[1].startswith(b'"ts') else IDS_APART
                return found[1] + str(int(found[2]) + shift * copy).encode()

            file.write((b"," if copy else b"") + NUMBERS.sub(moved, body))
        file.write(data[tail:])
    return path


def _end_of_events(data: bytes, head: int) -> int:
    """Return where the list that starts just before `head` is closed."""
    events = re.finditer(rb"\}\s*(\])\s*[,}]", data[head:])
    for found in events:
        try:
            json.loads(b"[" + data[head : head + found.start(1)] + b"]")
        except ValueError:
            continue
        return head + found.start(1)
    raise SystemExit("The list of events has no end.")


def measure(command: list[str]) -> tuple[float, float, float]:
    """Run a process; return wall seconds, CPU seconds and peak MB."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[:3]} failed with status {process.returncode}")
    wall = time.perf_counter() - begun
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def contenders(path: str, args: argparse.Namespace) -> dict[str, list[str]]:
    run = [sys.executable, "-c"]
    found = {
        "analyze": [sys.executable, "-m", "lightning_gpuprof.cli", "analyze", "--json", path],
        "floor": [*run, FLOOR, path],
        "json.load": [*run, JSON_LOAD, path],
    }
    if args.hta:
        found["HTA"] = [args.hta, "-c", HTA, path]
    if args.tb:
        found["torch-tb-profiler"] = [args.tb, "-c", TB, path]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=sorted(SOURCES), metavar="MB")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--tb", metavar="PYTHON")
    parser.add_argument("--json", metavar="FILE", help="also write the results here")
    parser.add_argument("--make", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.make:
        source, target, folder = args.make
        made = make_trace(Path(source), int(target), Path(folder))
        print(made, len(gzip.decompress(made.read_bytes())) / 1e6)
        return
    rows = []
    with tempfile.TemporaryDirectory() as name:
        for target in args.sizes:
            # In a process of its own: a child's peak memory counts its parent's at the fork.
            make = [sys.executable, __file__, "--make", str(SOURCES[target]), str(target), name]
            made = subprocess.run(make, check=True, capture_output=True, text=True).stdout.split()
            path, size = made[0], float(made[1])
            runs: dict[str, list[tuple[float, float, float]]] = {}
            for _ in range(args.repeats):
                for contender, command in contenders(path, args).items():
                    runs.setdefault(contender, []).append(measure(command))
            floor = statistics.median(one[0] for one in runs["floor"])
            for contender, found in runs.items():
                wall, cpu, peak = (statistics.median(column) for column in zip(*found, strict=True))
                row = {
                    "trace_mb": round(size, 1),
                    "contender": contender,
                    "wall_s": round(wall, 3),
                    "cpu_s": round(cpu, 3),
                    "peak_mb": round(peak),
                    "times_floor": round(wall / floor, 2),
                }
                rows.append(row)
                print(
                    f"{row['trace_mb']:7} MB  {contender:18}{row['wall_s']:8} s"
                    f"{row['cpu_s']:9} s CPU{row['peak_mb']:7} MB{row['times_floor']:7} x floor",
                    flush=True,
                )
    if args.json:
        document = {
            "date": time.strftime("%Y-%m-%d"),
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "repeats": args.repeats,
            "rows": rows,
        }
        Path(args.json).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
