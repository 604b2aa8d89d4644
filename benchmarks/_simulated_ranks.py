"""Records of simulated ranks that train together, made for all ranks at once.

Every rank works, then waits in the exchange of gradients until the last rank has arrived: who is
late, since when, and by how much is therefore known.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from lightning_gpuprof.arrays import Int64
from lightning_gpuprof.records.files import record_files
from lightning_gpuprof.records.phases import EXCHANGE, SELF_LOG, Phase
from lightning_gpuprof.records.schema import (
    SCHEMA_VERSION,
    Column,
    Device,
    Loader,
    RunEnd,
    RunStart,
    StepFlag,
    StepsWindow,
)
from lightning_gpuprof.records.writer import RecordWriter

WINDOW = 50
FLUSHED = 500
"""So many steps are written together, as the callback does."""
CHUNK = 1_000
"""Steps that are made at a time."""
MS = 1_000_000
USUAL_NS = {
    Phase.DATA_WAIT: 2 * MS,
    Phase.HOST_TO_DEVICE: MS // 2,
    Phase.FORWARD: 30 * MS,
    Phase.BACKWARD: 60 * MS,
    Phase.ZERO_GRAD: MS // 5,
    Phase.OPTIMIZER_STEP: 5 * MS,
    Phase.CALLBACKS: MS // 10,
    Phase.LOGGING: MS // 5,
    Phase.OTHER: MS // 2,
}
"""A usual step. The exchange is a part of backward, and comes on top."""
AFTER_EXCHANGE = (Phase.OPTIMIZER_STEP, Phase.CALLBACKS, Phase.LOGGING, Phase.OTHER)
NOISE_FRAC = 0.03
"""Every phase of every step varies by this share (standard deviation)."""
TRANSFER_NS = 8 * MS
"""Of the exchange itself, once the last rank has arrived."""
CLOCK_OFF_NS = 3_000_000_000
"""The clocks of the machines differ by up to so much, either way."""
PER_HOST = 8


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What is simulated.

    Args:
        ranks: The number of ranks.
        steps: The number of steps.
        late: The rank that the others wait for; None if nobody is late.
        more_ns: By how much longer it takes.
        phase: The phase in which it does.
        since: The first step in which it does.
        killed: The rank whose records end early, and the number of steps it has.
        joins_at: The rank whose records begin late, and its first step.
        seed: Of the random numbers.
    """

    ranks: int
    steps: int
    late: int | None = None
    more_ns: int = 20 * MS
    phase: Phase = Phase.FORWARD
    since: int = 0
    killed: tuple[int, int] | None = None
    joins_at: tuple[int, int] | None = None
    seed: int = 0

    def first_and_end(self, rank: int) -> tuple[int, int]:
        """Return a rank's first step, and the step behind its last."""
        first = self.joins_at[1] if self.joins_at and self.joins_at[0] == rank else 0
        end = self.killed[1] if self.killed and self.killed[0] == rank else self.steps
        return first, end


def write_ranks(run: Path, simulation: Simulation, *, processes: int = 2) -> None:
    """Write the record files of all ranks, as the callback would."""
    shares = [range(share, simulation.ranks, processes) for share in range(processes)]
    if simulation.ranks * simulation.steps < 1_000_000:
        _write_share(run, simulation, range(simulation.ranks))
        return
    with ProcessPoolExecutor(processes) as pool:
        list(pool.map(_write_share, [run] * processes, [simulation] * processes, shares))


def _write_share(run: Path, simulation: Simulation, ranks: range) -> None:
    writers = {rank: RecordWriter(run, rank=rank) for rank in ranks}
    clock_ns = np.zeros(simulation.ranks, dtype=np.int64)
    for rank, writer in writers.items():
        writer.write(_start(simulation, rank))
    for first, chunk in _chunks(simulation):
        starts_ns = clock_ns[:, None] + np.cumsum(chunk["dur_ns"], axis=1) - chunk["dur_ns"]
        clock_ns = starts_ns[:, -1] + chunk["dur_ns"][:, -1]
        for rank, writer in writers.items():
            begin, end = simulation.first_and_end(rank)
            columns = {name: table[rank] for name, table in chunk.items()}
            columns["start_ns"] = starts_ns[rank]
            for at in range(0, len(columns["dur_ns"]), WINDOW):
                if begin <= first + at < end:
                    writer.write(_window(first + at, at, columns))
                if (at + WINDOW) % FLUSHED == 0:
                    writer.flush()
            writer.flush()
    for rank, writer in writers.items():
        if simulation.killed is None or simulation.killed[0] != rank:
            steps = simulation.steps
            writer.write(RunEnd(status="finished", wall_ns=int(clock_ns[rank]), steps=steps))
            writer.flush()
            writer.close()


def append_window(run: Path, rank: int) -> None:
    """Append one more window to a rank's file: its last, as that of the next steps."""
    path = Path(record_files(str(run))[rank])
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 16)))
        lines = [line for line in file.read().split(b"\n") if line.startswith(b'{"kind":"steps"')]
    window = msgspec.json.decode(lines[-1], type=StepsWindow)
    later = {"step": window.count, "batch_idx": window.count, "start_ns": window.total_ns}
    columns = {
        name: Column.pack(column.unpack() + later.get(name, 0))
        for name, column in window.columns.items()
    }
    first_step = window.first_step + window.count
    window = msgspec.structs.replace(window, first_step=first_step, columns=columns)
    writer = RecordWriter(run, rank=rank)
    writer.write(window)
    writer.flush()
    writer.close()


def _start(simulation: Simulation, rank: int) -> RunStart:
    random = np.random.default_rng(rank)
    host = rank // PER_HOST
    off_ns = int(random.integers(-CLOCK_OFF_NS, CLOCK_OFF_NS))
    return RunStart(
        schema_version=SCHEMA_VERSION,
        session=0,
        stage="fit",
        started_unix_ns=1_790_000_000 * 10**9 + off_ns,
        rank=rank,
        world_size=simulation.ranks,
        host=f"node{host}",
        cpu_count=16,
        trainer={"strategy": "ddp", "num_devices": PER_HOST},
        device=Device(type="cpu"),
        loader=Loader(num_workers=4, batch_size=32, length=simulation.steps),
        phases=[phase.value for phase in Phase],
    )


def _chunks(simulation: Simulation) -> Iterator[tuple[int, dict[str, Int64]]]:
    """Yield, by column, tables of all ranks and `CHUNK` steps at a time."""
    random = np.random.default_rng(simulation.seed)
    pool = random.standard_normal(1 << 22, dtype=np.float32)
    after_ns = np.zeros(simulation.ranks, dtype=np.int64)
    for first in range(0, simulation.steps, CHUNK):
        count = min(CHUNK, simulation.steps - first)
        yield first, _chunk(simulation, first, count, pool, random, after_ns)


def _chunk(
    simulation: Simulation,
    first: int,
    count: int,
    pool: np.ndarray,
    random: np.random.Generator,
    after_ns: Int64,
) -> dict[str, Int64]:
    """Return tables by column; `after_ns` is what ranks did since the exchange of the last step."""
    shape, size = (simulation.ranks, count), simulation.ranks * count
    steps = np.arange(first, first + count)
    work = {}
    for phase, usual_ns in USUAL_NS.items():
        begin = int(random.integers(0, len(pool) - size))
        noise = pool[begin : begin + size].reshape(shape)
        work[phase] = np.maximum(1, usual_ns * (1 + NOISE_FRAC * noise)).astype(np.int64)
    if simulation.late is not None:
        work[simulation.phase][simulation.late, steps >= simulation.since] += simulation.more_ns
    arrival = sum(
        (work[phase] for phase in USUAL_NS if phase not in AFTER_EXCHANGE),
        np.zeros(shape, dtype=np.int64),
    )
    after = sum((work[phase] for phase in AFTER_EXCHANGE), np.zeros(shape, dtype=np.int64))
    arrival[:, 1:] += after[:, :-1]
    arrival[:, 0] += after_ns
    exchange = arrival.max(axis=0) - arrival + TRANSFER_NS
    after_ns[:] = after[:, -1]
    work[Phase.BACKWARD] += exchange
    columns = {f"phase/{phase.value}": table for phase, table in work.items()}
    columns[f"part/{Phase.BACKWARD.value}/{EXCHANGE}"] = exchange
    columns[f"part/{Phase.LOGGING.value}/{SELF_LOG}"] = work[Phase.LOGGING] // 2
    flags = np.where(steps < 3, int(StepFlag.WARMUP), 0)
    columns["step"] = np.broadcast_to(steps, shape)
    columns["batch_idx"] = columns["step"]
    columns["epoch"] = np.zeros(shape, dtype=np.int64)
    columns["flags"] = np.broadcast_to(flags, shape)
    columns["samples"] = np.full(shape, 32, dtype=np.int64)
    columns["dur_ns"] = sum(work.values(), np.zeros(shape, dtype=np.int64))
    return columns


def _window(first_step: int, at: int, columns: dict[str, Int64]) -> StepsWindow:
    rows = {name: values[at : at + WINDOW] for name, values in columns.items()}
    start_ns = rows.pop("start_ns")
    packed = np.array(list(rows.values())).astype("<i4")
    window = {name: Column("i4", row.tobytes()) for name, row in zip(rows, packed, strict=True)}
    window["start_ns"] = Column("i8", start_ns.astype("<i8").tobytes())
    phases = [phase for phase in Phase if f"phase/{phase.value}" in rows]
    return StepsWindow(
        first_step=first_step,
        count=len(start_ns),
        total_ns=int(rows["dur_ns"].sum()),
        phase_total_ns={p.value: int(rows[f"phase/{p.value}"].sum()) for p in phases},
        columns=window,
    )
