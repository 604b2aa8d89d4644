"""The figures that questions are about, as functions of a run; None where not measured."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import DeviceStep, TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.graph_passes import graph_passes, second_order
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.analysis.savings.host_work import HostWork, host_work
from lightning_gpuprof.analysis.savings.loader_plan import LoaderChange, loader_plan
from lightning_gpuprof.analysis.trace.idle import CAUSES, LAUNCH_CAUSES
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES, kernel_family
from lightning_gpuprof.analysis.trace.kernels import fills_memory
from lightning_gpuprof.analysis.trace_tables import KernelRow, RooflineRow, TraceAnalysis
from lightning_gpuprof.records.phases import OWN_CALLBACKS, Phase

SHORT_WAIT_FRAC = 0.05
TOP_KERNELS = 10
LOW_OCCUPANCY = 0.5
_Row = TypeVar("_Row", KernelRow, RooflineRow)
COPIES = ("aten::copy_", "aten::to", "aten::_to_copy")
LOADING = (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE)
GROUPS = (LOADING, *((phase,) for phase in Phase if phase not in LOADING))
"""Phases that share a question; every phase is in one group."""


@dataclass(frozen=True)
class FigureInputs:
    """What figures are computed from."""

    run: RunResults
    facts: TraceFacts | None
    work: HostWork | None

    @classmethod
    def of(cls, run: RunResults) -> "FigureInputs":
        """Derive, once for all figures, what they need of a run."""
        return cls(run, trace_facts(run), host_work(run))


Figure = Callable[[FigureInputs], float | None]


def share(*phases: Phase) -> Figure:
    """Return the figure that is the share of the step that some phases take together.

    What this package takes itself is left out.
    """

    def value(inputs: FigureInputs) -> float | None:
        per_step = map(inputs.run.per_step, phases)
        shares = [time.frac for time in per_step if time is not None]
        return sum(shares) - _own_frac(inputs.run, phases) if shares else None

    return value


def _own_frac(run: RunResults, phases: Sequence[Phase]) -> float:
    """Return the share of the step that this package's own callbacks take in these phases."""
    parts = run.parts_of(Phase.CALLBACKS) if Phase.CALLBACKS in phases else []
    own = [part.per_step for part in parts if part.name in OWN_CALLBACKS]
    return sum(per_step.frac for per_step in own if per_step is not None)


def slow_steps(inputs: FigureInputs) -> float | None:
    """Return the time that spikes take above the median step, as a share of the mean step."""
    spikes, step_ns = inputs.run.variation.spikes, inputs.run.step_ns
    return None if spikes is None or not step_ns else spikes.excess_per_step_ns / step_ns


def outside_largest_phase(inputs: FigureInputs) -> float | None:
    """Return the share of the step that all phases but the largest take."""
    shares = [share(*phases)(inputs) for phases in GROUPS]
    measured = [share for share in shares if share is not None]
    return max(0.0, 1 - max(measured)) if measured else None


def transfers(inputs: FigureInputs) -> float | None:
    """Return the share of the operators' time that is copies."""
    if inputs.facts is None or not inputs.facts.analysis.operators:
        return None
    operators = inputs.facts.operators.values()
    whole_ns = sum(operator.self_ns for operator in operators)
    copies_ns = sum(operator.self_ns for operator in operators if operator.name in COPIES)
    return copies_ns / whole_ns if whole_ns else None


def of_device(
    whole: Callable[[DeviceStep], float], part: Callable[[TraceFacts], float | None]
) -> Figure:
    """Return the figure that is a time of the trace as a share of a time of its device."""

    def value(inputs: FigureInputs) -> float | None:
        facts = inputs.facts
        if facts is None or facts.device_step is None:
            return None
        whole_ns, part_ns = whole(facts.device_step), part(facts)
        return part_ns / whole_ns if whole_ns and part_ns is not None else None

    return value


def of_trace(read: Callable[[TraceAnalysis], float | None]) -> Figure:
    """Return the figure that is a number of the trace's analysis."""

    def value(inputs: FigureInputs) -> float | None:
        return read(inputs.facts.analysis) if inputs.facts else None

    return value


def share_of(rows: Sequence[_Row], counts: Callable[[_Row], bool]) -> float | None:
    """Return the share of all rows' time that is in the rows that count."""
    whole_ns = sum(row.total_ns for row in rows)
    return sum(row.total_ns for row in rows if counts(row)) / whole_ns if whole_ns else None


def memory_bound(inputs: FigureInputs) -> float | None:
    """Return the share of the longest kernels' time in kernels below the roofline's ridge point."""
    rows = [row for row in inputs.facts.analysis.roofline if row.bound] if inputs.facts else []
    return share_of(rows[:TOP_KERNELS], lambda row: row.bound == "memory" and fills_memory(row))


def few_warps(inputs: FigureInputs) -> float | None:
    """Return the share of kernel time with low occupancy.

    Matrix products do not count: they reach their peak at low occupancy.
    """
    rows = inputs.facts.analysis.kernels if inputs.facts else ()
    return share_of([row for row in rows if row.occupancy_frac is not None], _has_few_warps)


def _has_few_warps(row: KernelRow) -> bool:
    if row.occupancy_frac is None or row.category in MATRIX_CATEGORIES:
        return False
    return row.occupancy_frac < LOW_OCCUPANCY


def repeated_passes(inputs: FigureInputs) -> float | None:
    """Return the share of the autograd graph's nodes that run again, as in a retained graph."""
    if inputs.facts is None or second_order(inputs.facts):
        return None
    passes = graph_passes(inputs.facts)
    return passes.repeated_frac if passes.calls else None


def top_kernel(inputs: FigureInputs) -> float | None:
    """Return the share of the step in the longest kernel that is no matrix product."""
    if inputs.facts is None or not inputs.facts.analysis.kernels or not inputs.run.step_ns:
        return None
    kernel_ns = Counter[str]()
    for row in inputs.facts.analysis.kernels:
        if row.category not in (*MATRIX_CATEGORIES, "communication"):
            kernel_ns[kernel_family(row.name)] += row.total_ns
    longest_ns = max(kernel_ns.values(), default=0)
    return min(1.0, longest_ns / inputs.facts.steps / inputs.run.step_ns)


def workers_off(inputs: FigureInputs) -> float | None:
    """Return how far the number of the loader's workers is from the suggested number."""
    suggested, loader = suggested_workers(inputs.run), inputs.run.start.loader
    if suggested is None or loader is None or loader.num_workers is None:
        return None
    return float(abs(suggested - loader.num_workers))


def suggested_workers(run: RunResults) -> int | None:
    """Return the number of data workers to use, which may be fewer; None if it is not known.

    Where workers keep up with training, how long a fetch takes is not known: then as many as today,
    but no more than there are cores.
    """
    loader, cores, wait_ns = run.start.loader, run.cores, run.wait_ns
    if loader is None or loader.num_workers is None or not cores or wait_ns is None:
        return None
    now = loader.num_workers
    if loader.shares:
        return now
    if not run.step_ns or wait_ns <= SHORT_WAIT_FRAC * run.step_ns:
        return min(now, cores)
    plan = loader_plan(run, run.step_ns, wait_ns, Exposed(wait_ns, wait_ns, "cpu"))
    for option in (plan, plan.instead):
        if option is not None and option.num_workers:
            return option.num_workers
    return 0 if plan.change is LoaderChange.NO_WORKERS and now > cores else min(now, cores)


FIGURES: dict[str, Figure] = {
    "slow_steps_share_frac": slow_steps,
    "data_share_frac": share(*LOADING),
    **{f"{phase.value}_share_frac": share(phase) for phase in Phase},
    "outside_largest_phase_frac": outside_largest_phase,
    "thin_calls_per_step_count": lambda inputs: inputs.work.short_calls if inputs.work else None,
    "short_kernel_frac": of_trace(
        lambda analysis: analysis.thin_kernels.count_frac if analysis.thin_kernels else None
    ),
    "copies_frac": transfers,
    "host_over_device_count": of_device(
        lambda device: device.busy_ns,
        lambda facts: sum(op.self_ns for op in facts.operators.values()),
    ),
    "gemm_frac": of_trace(lambda analysis: analysis.gemm_frac),
    "other_kernels_frac": lambda inputs: (
        None if (gemm := FIGURES["gemm_frac"](inputs)) is None else 1 - gemm
    ),
    "sync_frac": of_trace(lambda analysis: analysis.sync_frac),
    "launch_gaps_frac": of_device(
        lambda device: device.span_ns, lambda facts: facts.idle_ns(*CAUSES)
    ),
    "launch_overhead_frac": of_device(
        lambda device: device.span_ns, lambda facts: facts.idle_ns(*LAUNCH_CAUSES)
    ),
    "memory_bound_frac": memory_bound,
    "top_kernel_frac": top_kernel,
    "tensor_core_frac": of_trace(lambda analysis: analysis.tensor_core_frac),
    "few_warps_frac": few_warps,
    "repeated_passes_frac": repeated_passes,
    "filled_frac": lambda inputs: (
        inputs.run.memory.use.filled_frac if inputs.run.memory.use else None
    ),
    "peak_reserved_frac": lambda inputs: (
        inputs.run.memory.use.peak_frac if inputs.run.memory.use else None
    ),
    "workers_off_count": workers_off,
}
"""The figures by the names that questions.toml uses."""
