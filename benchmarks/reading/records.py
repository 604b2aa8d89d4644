"""Seconds to read and to analyse the record of a million steps.

python benchmarks/reading/records.py [--steps 1000000] [--repeat 5]
"""

import argparse
import json
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Column, RunEnd, RunStart, StepsWindow
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report

WINDOW = 50
PARTS = ("callbacks/ModelCheckpoint", "callbacks/TQDMProgressBar", "logging/TensorBoardLogger")


def write_run(run: str, steps: int) -> None:
    """Write a session as the callback does: windows of 50 steps, every phase, three parts."""
    rng = np.random.default_rng(0)
    writer = RecordWriter(run, rank=0)
    begin = {"schema_version": SCHEMA_VERSION, "session": 0, "stage": "fit", "rank": 0}
    writer.write(RunStart(**begin, started_unix_ns=0, phases=[phase.value for phase in Phase]))
    start = 0
    for first in range(0, steps, WINDOW):
        times = rng.integers(10_000, 5_000_000, (len(Phase), WINDOW))
        dur = times.sum(axis=0)
        columns = {f"phase/{phase.value}": times[i] for i, phase in enumerate(Phase)}
        columns |= {f"part/{part}": times[7] // 3 for part in PARTS}
        columns |= {
            "step": np.arange(first, first + WINDOW),
            "epoch": np.full(WINDOW, first // 10_000),
            "start_ns": start + np.cumsum(dur) - dur,
            "dur_ns": dur,
            "flags": np.zeros(WINDOW, dtype=np.int64),
            "samples": np.full(WINDOW, 32),
        }
        start += int(dur.sum())
        writer.write(
            StepsWindow(
                first_step=first,
                count=WINDOW,
                total_ns=int(dur.sum()),
                phase_total_ns={p.value: int(times[i].sum()) for i, p in enumerate(Phase)},
                columns={name: Column.pack(column) for name, column in columns.items()},
            )
        )
    writer.write(RunEnd(status="finished", wall_ns=start, steps=steps))
    writer.flush()


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as run:
        write_run(run, args.steps)
        size = sum(file.stat().st_size for file in Path(run).rglob("*.jsonl"))
        took: dict[str, list[float]] = defaultdict(list)

        def timed(name: str, act: Callable[[], Any]) -> Any:
            begin = time.perf_counter()
            done = act()
            took[name].append(time.perf_counter() - begin)
            return done

        for _ in range(args.repeat):
            ranks = timed("read_s", lambda: read_run(run))
            timed("analyse_s", lambda ranks=ranks: analyze_run(ranks, {}))
            del ranks
            timed("report_s", lambda: build_run(load_report(run)))
    medians = {name: statistics.median(each) for name, each in took.items()}
    print(json.dumps({"steps": args.steps, "file_bytes": size, **medians, "repeat": args.repeat}))


if __name__ == "__main__":
    main()
