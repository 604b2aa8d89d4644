"""Writes traces of a job's ranks, with collectives that take as long as a test says."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

WORLD = "[0, 1, 2]"


def collective(
    start_us: float,
    dur_us: float,
    *,
    number: int,
    kind: str = "allreduce",
    elements: int = 1_000_000,
    group: str | None = "0",
    ranks: str = WORLD,
    size: int = 3,
    sequence: int | None = None,
) -> list[dict]:
    """Return a collective's kernel and its launch, 5 us before it."""
    args = {"device": 0, "stream": 20, "correlation": number}
    if sequence is not None:
        args["Seq"] = sequence
    if group is not None:
        args |= {
            "Collective name": kind,
            "In msg nelems": elements,
            "Out msg nelems": elements,
            "Group size": size,
            "dtype": "Float",
            "Process Group Name": group,
            "Process Group Description": "default_pg",
            "Process Group Ranks": ranks,
        }
    return [
        host("cudaLaunchKernel", start_us - 5, 2, cat="cuda_runtime", correlation=number),
        event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start_us, dur_us, "kernel", 0, args),
    ]


def kernel(start_us: float, dur_us: float, *, number: int, name: str = "gemm") -> list[dict]:
    args = {"device": 0, "stream": 7, "correlation": number}
    return [
        host("cudaLaunchKernel", start_us - 5, 2, cat="cuda_runtime", correlation=number),
        event(name, start_us, dur_us, "kernel", 0, args),
    ]


def host(name: str, start_us: float, dur_us: float, *, cat: str = "cpu_op", **args) -> dict:
    return event(name, start_us, dur_us, cat, 100, args)


def event(name: str, start_us: float, dur_us: float, cat: str, pid: int, args: dict) -> dict:
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "pid": pid,
        "tid": 1,
        "ts": start_us,
        "dur": dur_us,
        "args": args,
    }


def step(number: int, start_us: float, dur_us: float) -> dict:
    return host(f"ProfilerStep#{number}", start_us, dur_us, cat="user_annotation")


def write_rank(
    folder: Path, rank: int, events: Sequence[dict], *, world: int = 3, offset_us: float = 0
) -> Path:
    """Write a rank's trace, on a clock that is off by `offset_us`."""
    shifted = [{**one_event, "ts": one_event["ts"] + offset_us} for one_event in events]
    trace = {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "traceEvents": shifted,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank{rank}.pt.trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps(trace).encode(), 1))
    return path
