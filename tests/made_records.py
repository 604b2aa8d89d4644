"""Records, windows of steps and analysed cycles, made of plain numbers."""

import gzip
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from lightning_gpuprof.analysis.trace_tables import ANALYSIS_VERSION
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir, trace_name
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import (
    SCHEMA_VERSION,
    Column,
    Device,
    Loader,
    Memory,
    ProfilerCycle,
    Record,
    RunEnd,
    RunStart,
    StepFlag,
    StepsWindow,
)
from lightning_gpuprof.records.writer import RecordWriter

MS = 1_000_000
STARTED_UNIX_NS = 1_795_000_000 * 10**9
WINDOW = 50


def run_start(**changes: Any) -> RunStart:
    """Return a session's first record: a CPU training of one rank."""
    values: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "session": 0,
        "stage": "fit",
        "started_unix_ns": STARTED_UNIX_NS,
        "rank": 0,
        "host": "a-host-of-another-time",
        "pid": 4242,
        "cpu_count": 2,
        "versions": {"python": "3.11.7", "torch": "2.13.0", "lightning": "2.6.6"},
        "trainer": {"precision": "32-true", "strategy": "single_device"},
        "model": {"class": "CharTransformer", "parameters": 824_192},
        "device": Device(type="cpu"),
        "loader": Loader(num_workers=0, batch_size=32, length=200),
        "phases": [phase.value for phase in Phase],
    }
    return RunStart(**{**values, **changes})


def make_session(
    phases=None,
    *,
    steps=100,
    flags=None,
    samples=None,
    parts=None,
    columns=None,
    records=(),
    end=True,
    wall_ns=None,
    window=50,
    session=0,
    **start,
):
    """Return the records of one session; a value per step or one for all, in ns.

    `phases` and `parts` (by `<phase>/<name>`) are host times, `columns` more of them by full name.
    What is not named here, such as `cpu_count`, is a field of `RunStart`.
    """
    phases = {Phase(name): _series(value, steps) for name, value in (phases or {}).items()}
    columns = {name: _series(value, steps) for name, value in (columns or {}).items()}
    columns |= {f"phase/{phase.value}": column for phase, column in phases.items()}
    columns |= {f"part/{name}": _series(value, steps) for name, value in (parts or {}).items()}
    dur = sum(phases.values(), np.zeros(steps, dtype=np.int64))
    ordinary = {
        "step": np.arange(steps),
        "dur_ns": dur,
        "start_ns": np.cumsum(dur) - dur,
        "flags": _series(0 if flags is None else flags, steps),
    }
    columns = ordinary | columns
    if samples is not None:
        columns["samples"] = _series(samples, steps)
    fields = {
        "schema_version": SCHEMA_VERSION,
        "stage": "fit",
        "started_unix_ns": 1_700_000_000_000_000_000 + session,
        "rank": 0,
        "cpu_count": 4,
        "device": Device(type="cpu"),
        "phases": [phase.value for phase in Phase],
    }
    made = [RunStart(session=session, **(fields | start))]
    for first in range(0, steps, window):
        chosen = slice(first, min(first + window, steps))
        made.append(
            StepsWindow(
                first_step=first,
                count=chosen.stop - first,
                total_ns=int(dur[chosen].sum()),
                phase_total_ns={p.value: int(c[chosen].sum()) for p, c in phases.items()},
                columns={name: Column.pack(column[chosen]) for name, column in columns.items()},
            )
        )
    made.extend(records)
    if end:
        whole = int(dur.sum()) if wall_ns is None else wall_ns
        made.append(RunEnd(status="finished", wall_ns=whole, steps=steps))
    return made


def _series(value, steps):
    return np.broadcast_to(np.asarray(value, dtype=np.int64), (steps,)).copy()


def windows(
    steps: int,
    phases_ms: dict[Phase, float],
    *,
    seed: int = 0,
    first_step_ms: float = 180.0,
    validation_every: int = 0,
    parts: dict[str, float] | None = None,
    extra: Callable[[np.ndarray, np.ndarray], dict[str, np.ndarray]] | None = None,
) -> list[Record]:
    """Return windows of steps whose phases scatter by a tenth around the given milliseconds.

    A part takes the same share of its phase in every step.
    """
    rng = np.random.default_rng(seed)
    phases = {
        phase: (rng.gamma(100, ms / 100, steps) * MS).astype(np.int64)
        for phase, ms in phases_ms.items()
    }
    part_ns = {}
    for name, ms in (parts or {}).items():
        phase = Phase(name.split("/")[0])
        part_ns[name] = (phases[phase] * (ms / phases_ms[phase])).astype(np.int64)
    phases[Phase.FORWARD][0] += int(first_step_ms * MS)
    flags = np.zeros(steps, dtype=np.int64)
    flags[:3] |= StepFlag.WARMUP
    flags[::200] |= StepFlag.EPOCH_START
    if validation_every:
        validated = np.arange(steps) % validation_every == validation_every - 1
        flags[validated] |= StepFlag.VALIDATION | StepFlag.CHECKPOINT
        phases[Phase.VALIDATION] = np.where(validated, 60 * MS, 0)
        phases[Phase.CHECKPOINT] = np.where(validated, 8 * MS, 0)
    columns = {"epoch": np.arange(steps) // 200, "batch_idx": np.arange(steps) % 200}
    if extra is not None:
        dur = sum(phases.values())
        columns |= extra(np.cumsum(dur) - dur, dur)
    made = make_session(
        phases, steps=steps, flags=flags, samples=32, parts=part_ns, columns=columns, window=WINDOW
    )
    return made[1:-1]


def write_run(folder: Path, records: Iterable[Record], *, rank: int = 0) -> Path:
    """Write a rank's records and return the run's log dir."""
    writer = RecordWriter(folder, rank=rank)
    for record in records:
        writer.write(record)
    writer.flush()
    return folder


def run_end(steps: int, **changes: Any) -> RunEnd:
    """Return a session's last record."""
    values = {"status": "finished", "wall_ns": steps * 45 * MS, "steps": steps}
    return RunEnd(**{**values, "own_cost_ns_per_step": 9_400, **changes})


def memory(peak: int, **changes: Any) -> Memory:
    """Return a reading of a GPU of 80 GiB whose peak, allocated and reserved, is this."""
    values = {"step": 50, "allocated_bytes": 1, "reserved_bytes": peak, "total_bytes": 80 * 2**30}
    peaks = {"peak_allocated_bytes": peak, "peak_reserved_bytes": peak}
    return Memory(**(values | peaks | changes))


def operator(name: str, calls: int, self_ms: float, total_ms: float) -> dict[str, Any]:
    """Return a line of an analysis' operator table."""
    return {
        "name": name,
        "count": calls,
        "self_ns": int(self_ms * MS),
        "total_ns": int(total_ms * MS),
    }


def kernel(name: str, calls: int, total_ms: float, frac: float) -> dict[str, Any]:
    """Return a line of an analysis' kernel table."""
    total = int(total_ms * MS)
    return {
        "name": name,
        "category": "gemm" if "gemm" in name else "elementwise",
        "count": calls,
        "total_ns": total,
        "mean_ns": total // calls,
        "min_ns": total // calls // 2,
        "max_ns": total // calls * 2,
        "frac": frac,
    }


def device_time(gpu_ms: dict[str, float]) -> dict[str, Any]:
    """Return an analysis' split of the device's time over three steps, from milliseconds of one."""
    whole = {f"{name}_ns": int(3 * ms * MS) for name, ms in gpu_ms.items()}
    span = sum(whole.values())
    step = {"name": "ProfilerStep#0", "start_ns": 0, "dur_ns": span // 3}
    busy = span - whole["idle_ns"]
    hidden = {"comm_ns": whole["exposed_comm_ns"], "copy_ns": whole["exposed_copy_ns"]}
    gpu = {**whole, **hidden, "span_ns": span, "busy_ns": busy, "busy_frac": busy / span}
    return {"gpu": gpu, "steps": [step] * 3}


def add_cycle(
    folder: Path,
    *,
    rank: int = 0,
    cycle: int = 0,
    first_step: int = 4,
    operators: list[dict[str, Any]] | None = None,
    kernels: list[dict[str, Any]] | None = None,
    gpu_ms: dict[str, float] | None = None,
    analysed: bool = True,
) -> ProfilerCycle:
    """Write a cycle's trace file and its analysis, and return the cycle's record."""
    name = trace_name(rank, 0, cycle)
    target = Path(plugin_dir(str(folder)))
    target.mkdir(parents=True, exist_ok=True)
    events = [
        {"ph": "X", "name": "aten::mm", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1}
    ]
    (target / name).write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    if analysed:
        document = {
            "schema_version": SCHEMA_VERSION,
            "analysis_version": ANALYSIS_VERSION,
            "operators": operators or [],
            "kernels": kernels or [],
            "warnings": [],
        } | (device_time(gpu_ms) if gpu_ms else {})
        (target / (name + ANALYSIS_SUFFIX)).write_text(json.dumps(document))
    return ProfilerCycle(
        cycle=cycle,
        first_step=first_step,
        last_step=first_step + 2,
        trace_file=name,
        trace_bytes=(target / name).stat().st_size,
    )
