"""The questions that a profile is read by, each with its figure, its limit and where to look next.

Findings promise a saving; these do not. They are the rules by which profiles were read by hand
before, kept whole so that each question has an answer, or a reason why it has none. Sources of the
limits: docs/adr/0030.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from lightning_gpuprof.analysis.host_work import HostWork, host_work
from lightning_gpuprof.analysis.input_pipeline import plan_workers
from lightning_gpuprof.analysis.run import RunResults
from lightning_gpuprof.analysis.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.records.phases import Phase

PHASE_FRAC = 0.50
THIN_CALLS_PER_STEP = 1_000
TRANSFER_FRAC = 0.10
HOST_OVER_DEVICE = 1.5
GEMM_FRAC = 0.60
SYNC_FRAC = 0.05
VRAM_FRAC = 0.60
TOP_KERNELS = 10


class State(str, Enum):
    """How a question is answered."""

    OK = "ok"
    LOOK = "look"
    NOT_MEASURED = "not_measured"


@dataclass(frozen=True)
class Check:
    """One question.

    `figure` is the name of `value` and ends in its unit; `next` says where to look when the
    state is `look`, and what is missing when it is `not_measured`.
    """

    id: str
    question: str
    figure: str
    value: float | None
    limit: float
    state: State
    next: str


@dataclass(frozen=True)
class _Seen:
    run: RunResults
    facts: TraceFacts | None
    work: HostWork | None


@dataclass(frozen=True)
class _Question:
    id: str
    question: str
    figure: str
    limit: float
    next: str
    lacks: str
    value: Callable[[_Seen], float | None]
    below: bool = False
    """Look where the value lies below the limit instead of above it."""


def run_checks(run: RunResults) -> tuple[Check, ...]:
    """Ask every question of a run."""
    seen = _Seen(run, trace_facts(run), host_work(run))
    return tuple(_ask(question, seen) for question in QUESTIONS)


def focus(checks: tuple[Check, ...]) -> Check | None:
    """Return the check that says where to look first: the phase that dominates, or that none does.

    None where no step was measured.
    """
    named = [check for check in checks if check.id in PHASE_CHECKS and check.state is State.LOOK]
    return named[0] if named else None


def _ask(question: _Question, seen: _Seen) -> Check:
    value = question.value(seen)
    if value is None:
        state = State.NOT_MEASURED
    else:
        beyond = value < question.limit if question.below else value > question.limit
        state = State.LOOK if beyond else State.OK
    return Check(
        id=question.id,
        question=question.question,
        figure=question.figure,
        value=value,
        limit=question.limit,
        state=state,
        next=question.lacks
        if value is None
        else question.next.format(workers=suggested_workers(seen.run)),
    )


def _share(*phases: Phase) -> Callable[[_Seen], float | None]:
    def value(seen: _Seen) -> float | None:
        found = [stats.frac for phase in phases if (stats := seen.run.per_step(phase)) is not None]
        return sum(found) if found else None

    return value


def _largest_share(seen: _Seen) -> float | None:
    shares = [_share(phase)(seen) for phase in (Phase.DATA_WAIT, Phase.FORWARD, Phase.BACKWARD)]
    known = [share for share in shares if share is not None]
    return max(known) if known else None


def _thin_calls(seen: _Seen) -> float | None:
    return None if seen.work is None else float(seen.work.thin_calls)


def _transfers(seen: _Seen) -> float | None:
    if seen.facts is None or not seen.facts.rows("operators"):
        return None
    operators = seen.facts.operators
    whole = sum(op.self_ns for op in operators.values())
    moved = sum(
        op.self_ns
        for name, op in operators.items()
        if name in ("aten::copy_", "aten::to", "aten::_to_copy")
    )
    return moved / whole if whole else None


def _host_over_device(seen: _Seen) -> float | None:
    facts = seen.facts
    if facts is None or not facts.on_device:
        return None
    busy = facts.per_step("gpu", "busy_ns")
    host = sum(op.self_ns for op in facts.operators.values())
    return host / busy if busy else None


def _of_trace(*keys: str) -> Callable[[_Seen], float | None]:
    def value(seen: _Seen) -> float | None:
        return seen.facts.number(*keys) if seen.facts else None

    return value


def _sync_share(seen: _Seen) -> float | None:
    if seen.facts is None or not seen.facts.on_device:
        return None
    blocked, span = seen.facts.number("sync_ns"), seen.facts.number("gpu", "span_ns")
    return blocked / span if blocked is not None and span else None


def _launch_gaps(seen: _Seen) -> float | None:
    return seen.facts.idle_ns("launch_latency", "kernel_gap") if seen.facts else None


def _memory_bound(seen: _Seen) -> float | None:
    """Return the share of the top kernels' time below the ridge point."""
    rows = [row for row in seen.facts.rows("roofline") if row.get("bound")] if seen.facts else []
    top = rows[:TOP_KERNELS]
    whole = sum(row.get("total_ns") or 0 for row in top)
    bound = sum(row.get("total_ns") or 0 for row in top if row.get("bound") == "memory")
    return bound / whole if whole else None


def _vram(seen: _Seen) -> float | None:
    return None if seen.run.memory is None else seen.run.memory.peak_frac


def _workers_off(seen: _Seen) -> float | None:
    """Return by how many workers the loader is away from what the fetch time asks for."""
    wanted, loader = suggested_workers(seen.run), seen.run.start.loader
    if wanted is None or loader is None or loader.num_workers is None:
        return None
    return float(abs(wanted - loader.num_workers))


def suggested_workers(run: RunResults) -> int | None:
    """Return the number of data workers to use, fewer ones as well as more; None if unknown.

    With workers that keep up, the fetch time is not known: as many stay, but fewer than cores.
    """
    loader, cores, wait = run.start.loader, run.start.cpu_count, run.per_step(Phase.DATA_WAIT)
    if loader is None or loader.num_workers is None or not cores or wait is None or not run.step_ns:
        return None
    now = loader.num_workers
    if now and (run.loader_wait.receiving_frac or 0.0) > PHASE_FRAC:
        return 0
    startup = run.epoch_starts.steady_mean_ns if run.epoch_starts else 0
    wait_ns = max(0, wait.mean_ns - startup)
    if now >= cores:
        return max(1, cores - 1)
    if wait_ns <= SYNC_FRAC * run.step_ns or cores < 2:
        return now
    plan = plan_workers(step_ns=run.step_ns, wait_ns=wait_ns, num_workers=now, cpu_count=cores)
    return plan.num_workers if plan.step_low_ns < run.step_ns else now


_NO_STEP = "no step was recorded"
_NO_TRACE = "it takes an analysed trace"
_NO_GPU_TRACE = "it takes an analysed trace with kernels of a GPU"
PHASE_CHECKS = ("data-share", "forward-share", "backward-share", "balanced")
QUESTIONS = (
    _Question(
        "data-share",
        "Does loading data take most of the step?",
        "data_share_frac",
        PHASE_FRAC,
        "the DataLoader first: num_workers, pin_memory, what __getitem__ and collate do",
        _NO_STEP,
        _share(Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    ),
    _Question(
        "forward-share",
        "Does the forward pass take most of the step?",
        "forward_share_frac",
        PHASE_FRAC,
        "the model's forward pass: its top operators, loops over small ones, lower precision",
        _NO_STEP,
        _share(Phase.FORWARD),
    ),
    _Question(
        "backward-share",
        "Does the backward pass take most of the step?",
        "backward_share_frac",
        PHASE_FRAC,
        "the backward pass: checkpointed activations, retained graphs, frozen layers with "
        "gradients, lower precision (twice the forward is usual)",
        _NO_STEP,
        _share(Phase.BACKWARD),
    ),
    _Question(
        "balanced",
        "Does any one phase take most of the step?",
        "largest_share_frac",
        PHASE_FRAC,
        "no phase dominates: take the top operators and kernels one by one, then a larger batch",
        _NO_STEP,
        _largest_share,
        below=True,
    ),
    _Question(
        "launch-overhead",
        "Are there many calls with little time each?",
        "thin_calls_per_step_count",
        THIN_CALLS_PER_STEP,
        "launch overhead: batch loops, compile, use CUDA graphs on a GPU",
        _NO_TRACE,
        _thin_calls,
    ),
    _Question(
        "transfers",
        "Do copies (aten::copy_, aten::to) take much of the operators' time?",
        "copies_frac",
        TRANSFER_FRAC,
        "transfers: pin memory, pack small tensors, create tensors where and as they are used",
        _NO_TRACE,
        _transfers,
    ),
    _Question(
        "host-over-device",
        "Does the host take far longer than the device?",
        "host_over_device_count",
        HOST_OVER_DEVICE,
        "syncs and small kernels: the device waits for the host",
        _NO_GPU_TRACE,
        _host_over_device,
    ),
    _Question(
        "gemm-share",
        "Do matrix products take most of the kernel time?",
        "gemm_frac",
        GEMM_FRAC,
        "kernels other than matrix products: fuse them (torch.compile, fused attention)",
        _NO_GPU_TRACE,
        _of_trace("gemm_frac"),
        below=True,
    ),
    _Question(
        "sync-share",
        "Does the host wait for the device?",
        "sync_frac",
        SYNC_FRAC,
        "reads of values in the loop (.item(), .cpu(), prints): keep them on the device",
        _NO_GPU_TRACE,
        _sync_share,
    ),
    _Question(
        "launch-gaps",
        "Are there gaps between kernels?",
        "launch_gaps_ns",
        0,
        "CUDA graphs: capture the step, so that its kernels follow each other without launches",
        _NO_GPU_TRACE,
        _launch_gaps,
    ),
    _Question(
        "roofline",
        "Are the top kernels bound by memory?",
        "memory_bound_frac",
        PHASE_FRAC,
        "bytes instead of FLOPs: fuse neighbours, smaller types; more arithmetic comes free",
        "it takes a trace with shapes, of a GPU whose peaks are known",
        _memory_bound,
    ),
    _Question(
        "vram",
        "Is the device's memory used?",
        "peak_reserved_frac",
        VRAM_FRAC,
        "a larger batch, or what memory can buy: no checkpointing, cached data",
        "no GPU",
        _vram,
        below=True,
    ),
    _Question(
        "workers",
        "Is the number of data workers right?",
        "workers_off_count",
        0,
        "DataLoader(num_workers={workers}), by the time of a fetch and the cores",
        "the loader's settings, the cores or the waits for data are not known",
        _workers_off,
    ),
)
