"""Run folders as the callback would leave them, made of plain numbers, for the reading side.

`python tests/made_runs.py FOLDER` writes all of them, to look at in TensorBoard;
`python tests/made_runs.py FOLDER TRACE` one whose profiler cycle is that trace file.
"""

import gzip
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from made_records import (
    MS,
    STARTED_UNIX_NS,
    WINDOW,
    add_cycle,
    kernel,
    make_session,
    operator,
    run_end,
    run_start,
    windows,
    write_run,
)
from snapshot_builder import SnapshotBuilder
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.records.facts import (
    Capture,
    CaptureReason,
    PhaseShift,
    ProcessMemory,
    SlowDown,
    SlowDownShape,
)
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir, snapshot_name, trace_name
from lightning_gpuprof.records.lines import (
    CapturedLines,
    CodePlace,
    CompileEvent,
    HostLines,
    LineCount,
    ModuleCalls,
    WorkerLines,
)
from lightning_gpuprof.records.phases import EXCHANGE, Phase
from lightning_gpuprof.records.schema import (
    SCHEMA_VERSION,
    Advice,
    AdviceDetails,
    Device,
    Loader,
    Memory,
    OutsideSpan,
    ProfilerCycle,
    Scalars,
    StepFlag,
)
from lightning_gpuprof.report.charts.layout_file import write_layout

HOSTILE_NAMES = (
    "<img src=x onerror=\"document.title='pwned'\">",
    "\u202egnp.exe\u202c reversed",
    "bell\u0007 null\u0000 escape\u001b[31m",
    "void kernel<float, " + "std::tuple<" * 1200 + ">" * 1200 + "(int)",
    "</script><script>alert(1)</script>",
)
DEMO_PHASES_MS = {
    Phase.DATA_WAIT: 24.0,
    Phase.HOST_TO_DEVICE: 0.2,
    Phase.FORWARD: 6.0,
    Phase.ZERO_GRAD: 0.1,
    Phase.BACKWARD: 9.0,
    Phase.OPTIMIZER_STEP: 2.5,
    Phase.CALLBACKS: 0.6,
    Phase.LOGGING: 0.3,
    Phase.OTHER: 0.4,
}

DEMO_OPERATORS = [
    operator("aten::addmm", 864, 41.2, 44.9),
    operator("aten::mm", 576, 38.6, 39.0),
    operator("aten::bmm", 192, 9.8, 10.4),
    operator("aten::native_layer_norm", 216, 4.1, 4.4),
    operator("aten::gelu", 96, 3.9, 3.9),
    operator("aten::_softmax", 96, 3.2, 3.2),
    operator("aten::copy_", 512, 2.8, 2.8),
    operator("aten::embedding", 24, 0.7, 1.1),
    operator("autograd::engine::evaluate_function: AddmmBackward0", 288, 1.9, 46.3),
] + [operator(f"aten::small_{i}", 10 + i, 0.01 * (40 - i), 0.02 * (40 - i)) for i in range(40)]


DEMO_LINE = "x = self.decoder(self.embed(tokens) + self.places, is_causal=True)"


def demo_run(folder: Path, *, steps: int = 600) -> Path:
    """A finished CPU run whose loader holds it back, with two profiler cycles."""
    cycles = [
        add_cycle(folder, cycle=0, first_step=4, operators=DEMO_OPERATORS),
        add_cycle(folder, cycle=1, first_step=8, operators=DEMO_OPERATORS[:9]),
    ]
    body = windows(
        steps,
        DEMO_PHASES_MS,
        validation_every=200,
        parts={"callbacks/ModelSummary": 0.1, "callbacks/EmaWeights": 0.45},
    )
    losses = [float(x) for x in 4.2 * np.exp(-np.arange(steps) / 300) + 1.1]
    seen = HostLines(
        200,
        (
            LineCount("forward", "char_lm/model.py", 41, "forward", DEMO_LINE, None, None, 90),
            LineCount("forward", "char_lm/model.py", 44, "forward", "", None, None, 10),
        ),
        {"data_wait": 100, "forward": 100},
    )
    return write_run(
        folder,
        [
            run_start(),
            OutsideSpan(where="setup", start_ns=0, dur_ns=120 * MS, phase_ns={"other": 120 * MS}),
            *cycles,
            *body,
            seen,
            Scalars(steps=list(range(steps)), values={"train_loss": losses}),
            run_end(steps),
        ],
    )


def gpu_run(
    folder: Path, *, steps: int = 300, rank: int = 0, world_size: int = 1, slow_ms: float = 0
) -> Path:
    """A run with device marks and memory, as a GPU would give them; the figures are made up."""
    kernels = [
        kernel("ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 288, 21.0, 0.62),
        kernel(
            "void at::native::vectorized_elementwise_kernel<4, at::native::GeluCUDAKernelImpl>",
            96,
            6.0,
            0.18,
        ),
        kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 12, 4.2, 0.12),
    ]
    # A rank that is early waits in its communication for the one that waits for its data.
    waits = {"exposed_comm": 9.4 - slow_ms, "idle": 0.5 + slow_ms} if world_size > 1 else {}
    gpu_ms = {"compute": 24.0, "exposed_comm": 0.0, "exposed_copy": 0.4, "idle": 2.0, **waits}
    cycle = add_cycle(folder, rank=rank, operators=DEMO_OPERATORS, kernels=kernels, gpu_ms=gpu_ms)

    def device_columns(start: np.ndarray, dur: np.ndarray) -> dict[str, np.ndarray]:
        shares = {"data_wait": 0.02, "forward": 0.3, "backward": 0.58, "optimizer_step": 0.1}
        columns = {
            f"device/{name}": (dur * share).astype(np.int64) for name, share in shares.items()
        }
        ahead = {f"run_ahead/{name}": (dur * 0.6).astype(np.int64) for name in shares}
        parts = {"device_part/forward/encoder": (dur * 0.22).astype(np.int64)}
        return {**columns, **ahead, **parts, "device_dur": (dur * 1).astype(np.int64)}

    phases = {
        Phase.DATA_WAIT: 0.4 + slow_ms,
        Phase.HOST_TO_DEVICE: 0.6,
        Phase.FORWARD: 8.0,
        Phase.BACKWARD: 14.0,
        Phase.OPTIMIZER_STEP: 3.0,
        Phase.CALLBACKS: 0.2,
        Phase.OTHER: 0.2,
    }
    memory = [
        Memory(
            step=step,
            allocated_bytes=9 * 2**30,
            reserved_bytes=12 * 2**30,
            peak_allocated_bytes=(20 - 4 * (step < 100)) * 2**30,
            peak_reserved_bytes=22 * 2**30,
            total_bytes=80 * 2**30,
            free_bytes=57 * 2**30,
            samples=32,
            kind_bytes={"parameters": 3 * 2**30, "optimizer_state": 6 * 2**30},
            allocator_bytes={"inactive_split": {"all": 3 * 2**30, "large_pool": 2**30}},
            alloc_retries=0,
            ooms=0,
        )
        for step in range(WINDOW - 1, steps, WINDOW)
    ]
    advice = Advice(
        step=steps - 1,
        batch_size=32,
        suggested_batch_size=120 - 16 * rank,
        low=100 - 16 * rank,
        high=136 - 16 * rank,
        details=AdviceDetails(constant_bytes=9 * 2**30, per_sample_bytes=11 * 2**30 // 32),
    )
    device = Device(
        type="cuda", name="NVIDIA H100 80GB HBM3", index=0, count=8, total_bytes=80 * 2**30
    )
    return write_run(
        folder,
        [
            run_start(rank=rank, world_size=world_size, device=device),
            cycle,
            *windows(
                steps, phases, seed=rank, extra=device_columns, parts={"forward/encoder": 5.0}
            ),
            *memory,
            advice,
            ModuleCalls(
                {"encoder": 24.0},
                {"encoder": CodePlace("gpt/model.py", 12, "forward", "z = self.encoder(x[:, t])")},
            ),
            CompileEvent(
                "graph break",
                "print is not traced",
                "",
                CodePlace("gpt/model.py", 30, "training_step", "print(loss)"),
            ),
            run_end(steps),
        ],
        rank=rank,
    )


def traced_run(
    folder: Path, source: Path | None = None, *, steps: int = 3, prepared: bool = True
) -> Path:
    """A run whose one cycle is a real trace file, or a generated one with known answers."""
    name = trace_name(0, 0, 0)
    target = Path(plugin_dir(str(folder)))
    target.mkdir(parents=True, exist_ok=True)
    trace = target / name
    if source is None:
        write_synthetic(trace, SyntheticSpec(steps=steps, stack_depth=3))
    elif source.suffix == ".gz":
        trace.write_bytes(source.read_bytes())
    else:
        trace.write_bytes(gzip.compress(source.read_bytes(), 1))
    if prepared:
        document = msgspec.json.encode(analyze_file(str(trace)))
        (target / (name + ANALYSIS_SUFFIX)).write_bytes(document)
        write_layout(str(trace))
    cycle = ProfilerCycle(
        cycle=0,
        first_step=4,
        last_step=3 + steps,
        trace_file=name,
        trace_bytes=trace.stat().st_size,
    )
    device = Device(type="cuda", index=0, count=1)
    return write_run(
        folder, [run_start(device=device), cycle, *windows(200, DEMO_PHASES_MS), run_end(200)]
    )


def worker_run(folder: Path, *, steps: int = 100) -> Path:
    """Two workers, of whose 200 samples 40 are waits; of the others 90 in 100 are at one line."""
    line = LineCount("data_wait", "data/text.py", 12, "decode", "total += byte", None, None, 144)
    seen = WorkerLines(2, 160, 40, 0, (line,))
    return write_run(
        folder,
        [
            run_start(loader=Loader(num_workers=2, batch_size=32)),
            *windows(steps, {Phase.DATA_WAIT: 12.0, Phase.FORWARD: 8.0}),
            seen,
            run_end(steps),
        ],
    )


def two_cycle_run(folder: Path) -> Path:
    """A GPU's run with two cycles, the second with twice the kernels, and a memory snapshot."""
    cycles = [add_cycle(folder, cycle=cycle, first_step=4 + 10 * cycle) for cycle in (0, 1)]
    target = Path(plugin_dir(str(folder)))
    for cycle, kernels in zip(cycles, (10, 20), strict=True):
        trace = target / cycle.trace_file
        write_synthetic(trace, SyntheticSpec(steps=2, kernels_per_burst=kernels))
        document = msgspec.json.encode(analyze_file(str(trace)))
        trace.with_name(trace.name + ANALYSIS_SUFFIX).write_bytes(document)
    snapshot = SnapshotBuilder()
    for line, gib in ((7, 3), (9, 1)):
        snapshot.allocate(gib << 30, line=line)
    snapshot.dump(str(target / snapshot_name(0, 0, 120, "oom")))
    device = Device(type="cuda", index=0, count=1)
    return write_run(
        folder, [run_start(device=device), *cycles, *windows(200, DEMO_PHASES_MS), run_end(200)]
    )


def two_rank_run(folder: Path) -> Path:
    """Two ranks, the second of which waits for its data."""
    gpu_run(folder, rank=0, world_size=2)
    return gpu_run(folder, rank=1, world_size=2, slow_ms=9.0)


def runs_of_two_models(folder: Path) -> Path:
    """Three runs one after the other, the second of another model."""
    models = ("CharTransformer", 824_192), ("Gan", 3_512), ("CharTransformer", 824_192)
    for number, (kind, parameters) in enumerate(models):
        start = run_start(
            started_unix_ns=STARTED_UNIX_NS - (3 - number) * 10**9,
            model={"class": kind, "parameters": parameters},
        )
        phases = DEMO_PHASES_MS | {Phase.DATA_WAIT: 24.0 - 8 * number}
        records = [start, *windows(200, phases, seed=number), run_end(200)]
        write_run(folder / f"version_{number}", records)
    return folder


def many_rank_run(folder: Path, *, ranks: int = 40, late: int = 27, steps: int = 60) -> Path:
    """Eight ranks to a host, one of which waits for its data while all others wait for it."""
    for rank in range(ranks):
        waits_ms = 1.0 if rank == late else 13.0
        phases = DEMO_PHASES_MS | {Phase.DATA_WAIT: 16.0 - waits_ms, Phase.BACKWARD: 9.0 + waits_ms}
        start = run_start(
            rank=rank,
            world_size=ranks,
            host=f"node{rank // 8}",
            started_unix_ns=STARTED_UNIX_NS + rank // 8 * 10**9,
        )
        parts = {f"{Phase.BACKWARD.value}/{EXCHANGE}": waits_ms}
        records = [start, *windows(steps, phases, seed=rank, parts=parts), run_end(steps)]
        write_run(folder, records, rank=rank)
    return folder


def slowing_run(folder: Path, *, steps: int = 1200, since: int = 800) -> Path:
    """A run whose callbacks take 6 ms more from a step on, which was noticed and captured."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = np.arange(steps)
    work = np.where(numbers < since, MS, 7 * MS)
    phases = {Phase.FORWARD: 12 * MS + numbers % 11 * MS // 10, Phase.CALLBACKS: work}
    steps_ms = {"compute": 0, "idle": 20, "exposed_comm": 0, "exposed_copy": 0}
    names = ("aten::add", "aten::sort")
    cycles = [
        add_cycle(
            folder,
            cycle=number,
            first_step=first,
            operators=[operator("aten::mm", 30, 15.0, 15.0), operator(names[number], 3, 9.0, 9.0)],
            gpu_ms=steps_ms,
        )
        for number, first in enumerate((10, since + 60))
    ]
    first_lines, captured_lines = (
        HostLines(
            300, lines, {"forward": 300 - share, "callbacks": share}, first_step=a, last_step=b
        )
        for lines, share, a, b in (
            (_lines(0, 134), 20, 5, 400),
            (_lines(100, 93), 105, since + 60, since + 300),
        )
    )
    slow_down = SlowDown(
        shape=SlowDownShape.STEP,
        since_step=since,
        noticed_step=since + 49,
        phase="callbacks",
        before_ns=13 * MS + MS // 2,
        during_ns=19 * MS + MS // 2,
        phases={"callbacks": PhaseShift(MS, 7 * MS)},
    )
    capture = Capture(
        number=0,
        why=CaptureReason.SLOW_DOWN,
        step=since + 50,
        onset_step=since,
        first_step=since + 60,
        last_step=since + 62,
        trace_file=cycles[1].trace_file,
        samples=300,
    )
    asked = Capture(
        number=1, why=CaptureReason.REQUEST, step=since + 350, problem="The disk is full."
    )
    records = make_session(
        phases,
        steps=steps,
        flags=np.where(numbers < 3, int(StepFlag.WARMUP), 0),
        samples=np.where(numbers < since, 32, 33),
        parts={"callbacks/Tracker": work},
        window=WINDOW,
        records=[
            *(first_lines, cycles[0], slow_down, msgspec.structs.replace(cycles[1], capture=0)),
            *(CapturedLines(0, captured_lines), capture, asked),
            *(ProcessMemory(step, 2**30 * (1 + (step > since))) for step in range(49, steps, 50)),
        ],
    )
    return write_run(folder, records)


def _lines(count: int, of_model: int) -> tuple[LineCount, ...]:
    """Return samples of a callback's line, as many as given, and of a line of the model."""
    own = LineCount(
        "callbacks", "train.py", 31, "on_train_batch_end", "self.seen.sort()", None, None, count
    )
    model = LineCount(
        "forward", "train.py", 12, "training_step", "loss = self.net(x)", None, None, of_model
    )
    return (own, model) if count else (model,)


def live_run(folder: Path) -> Path:
    """A run in progress: its process is this one, and its last line is not yet whole."""
    start = run_start(host=socket.gethostname(), pid=os.getpid())
    write_run(folder, [start, *windows(150, DEMO_PHASES_MS)])
    with (Path(plugin_dir(str(folder))) / "rank0.jsonl").open("ab") as file:
        file.write(b'{"kind":"steps","first_st')
    return folder


def killed_run(folder: Path) -> Path:
    """A run that ended without a word, before its first profiler cycle."""
    return write_run(folder, [run_start(), *windows(100, DEMO_PHASES_MS)])


def bare_run(folder: Path) -> Path:
    """A run that was killed in its first window: nothing but its start."""
    return write_run(folder, [run_start()])


def newer_run(folder: Path) -> Path:
    """A run of a record schema that this version does not know."""
    return write_run(folder, [run_start(schema_version=SCHEMA_VERSION + 1), run_end(0)])


def hostile_run(folder: Path) -> Path:
    """A run whose every name is chosen to do harm."""
    operators = [operator(name, 10, 5.0 - i, 6.0 - i) for i, name in enumerate(HOSTILE_NAMES)]
    kernels = [kernel(name, 10, 5.0 - i, 0.1) for i, name in enumerate(HOSTILE_NAMES)]
    cycle = add_cycle(folder, operators=operators, kernels=kernels)
    outside = ProfilerCycle(
        cycle=1, first_step=8, last_step=10, trace_file="../../../../../../etc/passwd"
    )
    phases = {**DEMO_PHASES_MS, Phase.CALLBACKS: 30.0}
    parts = {f"callbacks/{name}": 2.0 for name in HOSTILE_NAMES}
    parts[f"callbacks/{HOSTILE_NAMES[0]}"] = 20.0
    return write_run(
        folder,
        [
            run_start(
                device=Device(type="cpu", name=HOSTILE_NAMES[0]),
                model={"class": HOSTILE_NAMES[0]},
                versions={"torch": HOSTILE_NAMES[1]},
            ),
            cycle,
            outside,
            *windows(200, phases, parts=parts),
            run_end(200, status="exception", error=HOSTILE_NAMES[0]),
        ],
    )


def hostile_trace_run(folder: Path) -> Path:
    """A run with a trace whose every name, thread and argument is chosen to do harm."""
    events: list[dict[str, Any]] = []
    for i, name in enumerate(HOSTILE_NAMES):
        at = {"ph": "X", "pid": 1, "tid": 1, "ts": 100 * i}
        shapes = {"Input Dims": [[4, 4]], "Input type": [name]}
        events.append({**at, "cat": "cpu_op", "name": name, "dur": 60, "args": shapes})
    events.append(
        {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": HOSTILE_NAMES[0]}}
    )
    source = folder / "source.json"
    folder.mkdir(parents=True, exist_ok=True)
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return traced_run(folder, source)


def all_runs(root: Path) -> Path:
    """Write every kind of run below a log dir."""
    demo_run(root / "char_lm" / "version_0")
    demo_run(root / "char_lm" / "version_1", steps=5_000)
    gpu_run(root / "gpu")
    two_rank_run(root / "two_ranks")
    many_rank_run(root / "many_ranks")
    traced_run(root / "traced")
    hostile_trace_run(root / "hostile_trace")
    live_run(root / "live")
    killed_run(root / "killed")
    bare_run(root / "bare")
    newer_run(root / "newer")
    hostile_run(root / "hostile <b>run</b>")
    return root


if __name__ == "__main__":
    target, *traces = map(Path, sys.argv[1:])
    traced_run(target, *traces) if traces else all_runs(target)
