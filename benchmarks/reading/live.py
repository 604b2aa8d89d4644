"""Memory and CPU time of the PROFILE tab while a run of many ranks trains.

python benchmarks/reading/live.py [--ranks 64] [--steps 1000] [--refreshes 6] [--every-rank]

Simulated records of every rank are opened through TensorBoard's WSGI application. Then a rank (or
every rank) appends a window, and the overview is asked for again, as the tab does every few
seconds. Memory is the resident set of this process, of which the records are all but some 200 MB.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # for what the benchmarks share

from _harness import write_results
from records import PARTS, WINDOW
from tensorboard.backend import application
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Column, RunStart, StepsWindow
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.tab.loader import GpuProfLoader

ROUTE = "/data/plugin/gpuprof"
OVERVIEW = ("run", "report", "steps")


class Rank:
    """A rank that trains: each window that it appends is that of the next steps."""

    def __init__(self, run: Path, rank: int, world_size: int) -> None:
        self._writer = RecordWriter(str(run), rank=rank)
        self._random = np.random.default_rng(rank)
        self._first = self._start_ns = 0
        begin = {"schema_version": SCHEMA_VERSION, "session": 0, "stage": "fit", "rank": rank}
        phases = [phase.value for phase in Phase]
        self._writer.write(
            RunStart(**begin, started_unix_ns=0, world_size=world_size, phases=phases)
        )

    def append(self, windows: int = 1) -> None:
        """Append windows of steps, in which every phase takes some time."""
        for _ in range(windows):
            times = self._random.integers(10_000, 5_000_000, (len(Phase), WINDOW))
            dur = times.sum(axis=0)
            columns = {f"phase/{phase.value}": times[i] for i, phase in enumerate(Phase)}
            columns |= {f"part/{part}": times[7] // 3 for part in PARTS}
            columns |= {
                "step": np.arange(self._first, self._first + WINDOW),
                "epoch": np.zeros(WINDOW, dtype=np.int64),
                "start_ns": self._start_ns + np.cumsum(dur) - dur,
                "dur_ns": dur,
                "flags": np.zeros(WINDOW, dtype=np.int64),
                "samples": np.full(WINDOW, 32),
            }
            self._writer.write(
                StepsWindow(
                    first_step=self._first,
                    count=WINDOW,
                    total_ns=int(dur.sum()),
                    phase_total_ns={p.value: int(times[i].sum()) for i, p in enumerate(Phase)},
                    columns={name: Column.pack(column) for name, column in columns.items()},
                )
            )
            self._first += WINDOW
            self._start_ns += int(dur.sum())
        self._writer.flush()


def resident_bytes() -> int:
    """Return the memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def opened(client: Client) -> dict[str, float]:
    """Ask for the overview; return the CPU seconds, and the memory afterwards."""
    begin = time.process_time()
    for name in OVERVIEW:
        params = {"run": ".", "buckets": "160"} if name == "steps" else {"run": "."}
        response = client.get(f"{ROUTE}/{name}", query_string=params)
        if response.status_code != 200:
            raise RuntimeError(f"{name} answered {response.status_code}")
    return {"cpu_s": time.process_time() - begin, "resident_bytes": resident_bytes()}


def main() -> None:
    """Measure, and write the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--refreshes", type=int, default=6)
    parser.add_argument("--every-rank", action="store_true", help="not the lowest rank alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        ranks = []
        for number in range(args.ranks):
            rank = Rank(run, number, args.ranks)
            rank.append(args.steps // WINDOW)
            ranks.append(rank)
        context = base_plugin.TBContext(logdir=folder, flags=SimpleNamespace(logdir_spec=""))
        client = Client(application.TensorBoardWSGI([GpuProfLoader().load(context)]))
        before = resident_bytes()
        result: dict[str, Any] = {
            **vars(args), "empty_bytes": before, "opened": opened(client), "refreshed": [],
        }  # fmt: skip
        for _ in range(args.refreshes):
            for rank in ranks if args.every_rank else ranks[:1]:
                rank.append()
            result["refreshed"].append(opened(client))
    print(json.dumps(result, indent=1))
    print(f"Written: {write_results('live', result)}")


if __name__ == "__main__":
    main()
