"""Seconds and memory of `analyze FOLDER` on all ranks' traces of a job, and whether it is right.

    python benchmarks/reading/rank_traces.py [--quick] [--ranks 8 32 64] [--folder FOLDER]

The traces are generated. In every step each rank computes, then takes part in four all-reduces.
Rank 3 computes 5 ms longer than the step needs, the others up to 0.15 ms, so that every wait is
known beforehand. The ranks' clocks differ by up to 3 s. Numbers of ranks take turns, `--rounds`
times.

Megabytes of a trace are of JSON; the files are gzipped. Peaks are the largest resident sets of the
process and of each child (Linux's VmHWM); `together_mb` is the most that all held at one time, with
pages that they share counted for each. About four minutes on two cores, and 500 MB in FOLDER.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import RESULTS, say, table, write_results
from isal import igzip

from lightning_gpuprof.report.document import Document, decode

RANKS = (8, 32, 64)
STEPS = 20
LATE_RANK = 3
US = 1_000
LATE_NS, JITTER_NS = 5_000 * US, 10 * US
KERNEL_NS, LAUNCH_NS, WIRE_NS = 20 * US, 8 * US, 100 * US
BUCKETS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
"""Elements of each all-reduce of a step, of 4 bytes."""
BYTES_PER_LAUNCH = 870
"""What the five events of a launch take in the file."""
MOST_MB = 600
"""What all processes may hold together while they read 64 traces of 50 MB."""
POLL_S = 0.02


@dataclass(frozen=True)
class Job:
    """What the traces of a job's ranks hold.

    Args:
        ranks: How many there are.
        kernels: Kernels per step that compute.
    """

    ranks: int
    kernels: int

    @property
    def step_ns(self) -> int:
        """Return how long a step takes on every rank, the latest one's time included."""
        wire_ns = len(BUCKETS) * WIRE_NS
        return self.kernels * KERNEL_NS + LATE_NS + wire_ns + 200 * US


def late_ns(rank: int, step: int) -> int:
    """Return how much longer than its kernels need a rank computes in a step."""
    return LATE_NS if rank == LATE_RANK else (37 * rank + 11 * step) % 16 * JITTER_NS


def waits_ns(rank: int) -> int:
    """Return how long a rank waits for the last one in all steps."""
    return sum(LATE_NS - late_ns(rank, step) for step in range(STEPS))


def write_rank(path: Path, rank: int, job: Job) -> int:
    """Write a rank's trace; return the bytes of its JSON."""
    ranks = list(range(job.ranks))
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": job.ranks, "ranks": ranks}
    head = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H100 80GB HBM3", "numSms": 132}],
        "distributedInfo": {
            "backend": "nccl",
            "rank": rank,
            "world_size": job.ranks,
            "pg_count": 1,
            "pg_config": [group],
        },
    }
    origin_ns = 1_751_410_836_000_000_000 + rank * 3_000_000_000 // job.ranks
    size = 0
    with igzip.open(path, "wb", compresslevel=1) as file:
        text = json.dumps(head)[:-1] + ', "traceEvents": [\n'
        for step in range(STEPS):
            begin_ns = origin_ns + step * job.step_ns
            text += ",\n".join(_step(rank, step, begin_ns, job))
            text += ",\n" if step + 1 < STEPS else "\n]}"
            data = text.encode()
            size += len(data)
            file.write(data)
            text = ""
    return size


def _step(rank: int, step: int, begin_ns: int, job: Job) -> Iterator[str]:
    """Yield the events of a step: kernels one after the other, then the all-reduces."""
    yield (
        f'{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{step}", "pid": 100, '
        f'"tid": 100, "ts": {_us(begin_ns)}, "dur": {_us(job.step_ns - 10 * US)}, "args": {{}}}}'
    )
    first = step * (job.kernels + len(BUCKETS)) + 1
    launch_ns, start_ns = begin_ns + 10 * US, begin_ns + 30 * US
    for number in range(first, first + job.kernels):
        is_last = number + 1 == first + job.kernels
        dur_ns = KERNEL_NS + (late_ns(rank, step) if is_last else 0)
        yield _launch("aten::mm", number, launch_ns)
        yield _kernel("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", number, start_ns, dur_ns, 7, "")
        launch_ns += LAUNCH_NS
        start_ns += dur_ns
    wait_ns = LATE_NS - late_ns(rank, step)
    name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    for number, elements in enumerate(BUCKETS, start=first + job.kernels):
        yield _launch("record_param_comms", number, launch_ns)
        arguments = (
            f', "Collective name": "allreduce", "In msg nelems": {elements}, '
            f'"Out msg nelems": {elements}, "Group size": {job.ranks}, "dtype": "Float", '
            '"Process Group Name": "0", "Process Group Description": "default_pg"'
        )
        yield _kernel(name, number, start_ns, wait_ns + WIRE_NS, 20, arguments)
        launch_ns += LAUNCH_NS
        start_ns += wait_ns + WIRE_NS
        wait_ns = 0


def _us(ns: int) -> str:
    """Return microseconds with three decimals, as Kineto writes them."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _launch(operator: str, number: int, start_ns: int) -> str:
    """Return an operator, the call in it that launches a kernel, and the arrow's start."""
    ts = _us(start_ns)
    return (
        f'{{"ph": "X", "cat": "cpu_op", "name": "{operator}", "pid": 100, "tid": 100, "ts": {ts}, '
        f'"dur": 6.000, "args": {{"External id": {number}, "Ev Idx": {number}}}}},\n'
        f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 100, "tid": 100, '
        f'"ts": {ts}, "dur": 4.000, "args": {{"External id": {number}, "cbid": 211, '
        f'"correlation": {number}}}}},\n'
        f'{{"ph": "s", "id": {number}, "pid": 100, "tid": 100, "ts": {ts}, "cat": "ac2g", '
        '"name": "ac2g"}'
    )


def _kernel(name: str, number: int, start_ns: int, dur_ns: int, stream: int, arguments: str) -> str:
    """Return a kernel and the end of the arrow from its launch."""
    ts = _us(start_ns)
    return (
        f'{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": {stream}, "ts": {ts}, '
        f'"dur": {_us(dur_ns)}, "args": {{"External id": {number}, "device": 0, "context": 1, '
        f'"stream": {stream}, "correlation": {number}, "grid": [128, 1, 1], '
        f'"block": [256, 1, 1]{arguments}}}}},\n'
        f'{{"ph": "f", "id": {number}, "pid": 0, "tid": {stream}, "ts": {ts}, "cat": "ac2g", '
        '"name": "ac2g", "bp": "e"}'
    )


def write_job(folder: Path, job: Job) -> float:
    """Write the traces of all ranks, in as many processes as there are cores; return their MB."""
    folder.mkdir()
    paths = [folder / f"rank{rank}.pt.trace.json.gz" for rank in range(job.ranks)]
    with ProcessPoolExecutor() as pool:
        sizes = pool.map(write_rank, paths, range(job.ranks), [job] * job.ranks)
        return sum(sizes) / 1e6


def analyzed(folder: Path) -> tuple[Document, dict[str, Any]]:
    """Analyse a folder in a process of its own; return the document, and what that took."""
    command = [sys.executable, "-m", "lightning_gpuprof.cli", "analyze", "--json", str(folder)]
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, text=True)
        peaks: dict[int, int] = {}
        together = 0
        while process.poll() is None:
            resident = {pid: _memory_kb(pid) for pid in _family(process.pid)}
            peaks |= {pid: peak for pid, (_, peak) in resident.items() if peak}
            together = max(together, sum(now for now, _ in resident.values()))
            time.sleep(POLL_S)
        wall_s = time.perf_counter() - begun
        if process.returncode:
            assert process.stderr is not None
            raise SystemExit(f"{' '.join(command)} failed:\n{process.stderr.read()[-2000:]}")
        out.seek(0)
        document = decode(out.read())
    parent_kb = peaks.pop(process.pid)
    return document, {
        "wall_s": wall_s,
        "parent_mb": parent_kb / 1024,
        "children_mb": sorted(round(peak / 1024) for peak in peaks.values()),
        "together_mb": together / 1024,
    }


def _family(pid: int) -> list[int]:
    """Return a process and all that it started, and those started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in _family(int(child)))]


def _memory_kb(pid: int) -> tuple[int, int]:
    """Return what a process holds, and the most that it held; 0 for one that has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0, 0
    lines = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    now, peak = (int(lines.get(key, "0").split()[0]) for key in ("VmRSS", "VmHWM"))
    return now, peak


def wrong(document: Document, job: Job) -> list[str]:
    """Return what a document of the job's traces says that is not so; empty if all is right."""
    said = {row["rank"]: row for row in document.rows("ranks")}
    right: dict[str, tuple[object, object]] = {
        "ranks": (sorted(said, key=str), sorted(range(job.ranks), key=str)),
    }
    for rank in range(job.ranks):
        row = said.get(rank, {})
        right[f"waits of rank {rank}"] = (row.get("waited_ns"), waits_ns(rank))
        last_count = STEPS if rank == LATE_RANK else 0
        right[f"how often rank {rank} is last"] = (row.get("last_count"), last_count)
    (all_reduce,) = document.rows("collectives") or ({},)
    right["collectives"] = (all_reduce.get("count"), STEPS * len(BUCKETS))
    right["bytes"] = (all_reduce.get("num_bytes"), STEPS * 4 * sum(BUCKETS))
    right["time on the wire"] = (all_reduce.get("wire_ns"), STEPS * len(BUCKETS) * WIRE_NS)
    return [f"{what}: {given}, not {due}" for what, (given, due) in right.items() if given != due]


def main() -> int:
    """Measure, print a table and write the figures; return how many answers were wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add("--ranks", nargs="+", type=int, default=RANKS, metavar="N")
    add("--megabytes", type=float, default=50.0, metavar="MB", help="JSON of a rank's trace")
    add("--quick", action="store_true", help="one round, in two minutes")
    add("--rounds", type=int, default=3, metavar="N")
    add("--folder", type=Path, help="where the traces are written for a while")
    add("--results", type=Path, default=RESULTS, metavar="FOLDER")
    args = parser.parse_args()
    kernels = max(1, round(args.megabytes * 1e6 / BYTES_PER_LAUNCH / STEPS) - len(BUCKETS))
    jobs = {ranks: Job(ranks, kernels) for ranks in args.ranks}
    sizes: dict[int, float] = {}
    runs: dict[int, list[dict[str, Any]]] = {ranks: [] for ranks in jobs}
    mistakes: set[str] = set()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        for ranks, job in jobs.items():
            sizes[ranks] = write_job(Path(folder, str(ranks)), job)
            say(f"{ranks} ranks' traces written: {sizes[ranks]:,.0f} MB")
        for _ in range(1 if args.quick else args.rounds):
            for ranks, job in jobs.items():
                document, taken = analyzed(Path(folder, str(ranks)))
                runs[ranks].append(taken)
                mistakes |= {f"{ranks} ranks: {mistake}" for mistake in wrong(document, job)}
                say(f"{ranks} ranks: {taken['wall_s']:.1f} s, {taken['together_mb']:.0f} MB")
    rows = [_row(ranks, sizes[ranks], taken) for ranks, taken in runs.items()]
    lines = [
        f"| {row['ranks']} | {row['trace_mb']:.0f} MB | {row['wall_s']:.1f} s | "
        f"{row['s_per_rank']:.2f} s | {row['parent_mb']:.0f} MB | {row['child_mb']:.0f} MB | "
        f"{row['together_mb']:.0f} MB |"
        for row in rows
    ]
    head = ("ranks", "a trace", "all", "per rank", "parent", "largest child", "together")
    page = "\n".join([*table(head, ()), *lines, "", *sorted(mistakes)]) + "\n"
    print(page)
    result = {"sizes": rows, "wrong": sorted(mistakes), "limit_mb": MOST_MB}
    print(f"written to {write_results('rank-traces', result, page=page, folder=args.results)}")
    return len(mistakes)


def _row(ranks: int, size_mb: float, runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the medians of what the runs of one number of ranks took."""
    wall_s = statistics.median(run["wall_s"] for run in runs)
    return {
        "ranks": ranks,
        "trace_mb": round(size_mb / ranks, 1),
        "runs": len(runs),
        "wall_s": round(wall_s, 2),
        "low_s": round(min(run["wall_s"] for run in runs), 2),
        "high_s": round(max(run["wall_s"] for run in runs), 2),
        "s_per_rank": round(wall_s / ranks, 3),
        "mb_per_s": round(size_mb / wall_s),
        "parent_mb": round(statistics.median(run["parent_mb"] for run in runs)),
        "child_mb": round(statistics.median(max(run["children_mb"], default=0) for run in runs)),
        "together_mb": round(statistics.median(run["together_mb"] for run in runs)),
        "processes": 1 + max(len(run["children_mb"]) for run in runs),
        "cores": os.cpu_count(),
    }


if __name__ == "__main__":
    raise SystemExit(main())
