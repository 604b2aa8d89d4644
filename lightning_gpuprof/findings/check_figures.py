"""The figures of questions.toml, each a function of a run; None where not measured."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.graph_passes import graph_passes, second_order
from lightning_gpuprof.analysis.savings.hidden import Exposed
from lightning_gpuprof.analysis.savings.host_work import HostWork, host_work
from lightning_gpuprof.analysis.savings.loader_plan import LoaderChange, loader_plan
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES, kernel_family
from lightning_gpuprof.analysis.trace.kernels import fills_memory
from lightning_gpuprof.records.phases import Phase

SHORT_WAIT_FRAC = 0.05
MOST_FRAC = 0.5
"""The limit of the questions on phases."""
TOP_KERNELS = 10
LOW_OCCUPANCY = 0.5
Row = Mapping[str, Any]
COPIES = ("aten::copy_", "aten::to", "aten::_to_copy")
GROUPS = (
    (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    *((one,) for one in Phase if one not in (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE)),
)
"""Phases that one question asks about: together all of a step, each once."""


@dataclass(frozen=True)
class Seen:
    """The inputs of the figures."""

    run: RunResults
    facts: TraceFacts | None
    work: HostWork | None

    @classmethod
    def of(cls, run: RunResults) -> "Seen":
        """Look at a run once for all figures."""
        return cls(run, trace_facts(run), host_work(run))


Figure = Callable[[Seen], float | None]


def share(*phases: Phase) -> Figure:
    """Return the figure that is the share of some phases in the step."""

    def value(seen: Seen) -> float | None:
        found = [stats.frac for phase in phases if (stats := seen.run.per_step(phase)) is not None]
        return sum(found) if found else None

    return value


def slow_steps(seen: Seen) -> float | None:
    """Return what spikes take above the median step, as a share of the mean one."""
    spikes, step_ns = seen.run.spikes, seen.run.step_ns
    return None if spikes is None or not step_ns else spikes.excess_per_step_ns / step_ns


def dominant_phases(seen: Seen) -> float | None:
    """Return how many of the phases that a check asks about take most of the step: one, or none."""
    shares = [share(*phases)(seen) for phases in GROUPS]
    known = [share for share in shares if share is not None]
    return float(sum(share > MOST_FRAC for share in known)) if known else None


def transfers(seen: Seen) -> float | None:
    """Return the share of copies in the operators' time."""
    if seen.facts is None or not seen.facts.rows("operators"):
        return None
    operators = seen.facts.operators.values()
    whole = sum(op.self_ns for op in operators)
    moved = sum(op.self_ns for op in operators if op.name in COPIES)
    return moved / whole if whole else None


def of_device(key: str, part: Callable[[TraceFacts], float | None]) -> Figure:
    """Return the figure that is a part of a trace against a time of its device."""

    def value(seen: Seen) -> float | None:
        facts = seen.facts if seen.facts and seen.facts.on_device else None
        whole = facts.per_step("gpu", key) if facts else None
        found = part(facts) if facts and whole else None
        return found / whole if whole and found is not None else None

    return value


def of_trace(*keys: str) -> Figure:
    """Return the figure that is a number of the trace."""

    def value(seen: Seen) -> float | None:
        return seen.facts.number(*keys) if seen.facts else None

    return value


def share_of(rows: Sequence[Row], held: Callable[[Row], bool]) -> float | None:
    """Return the share of some rows in the time of all."""
    whole = sum(row.get("total_ns") or 0 for row in rows)
    return sum(row.get("total_ns") or 0 for row in rows if held(row)) / whole if whole else None


def memory_bound(seen: Seen) -> float | None:
    """Return the share of the top kernels' time below the ridge point."""
    rows = [row for row in seen.facts.rows("roofline") if row.get("bound")] if seen.facts else []
    return share_of(rows[:TOP_KERNELS], lambda row: row["bound"] == "memory" and fills_memory(row))


def few_warps(seen: Seen) -> float | None:
    """Return the share of kernel time with low occupancy; matrix products reach their peak so."""
    rows = seen.facts.rows("kernels") if seen.facts else ()
    known = [row for row in rows if row.get("occupancy_frac") is not None]
    return share_of(
        known,
        lambda row: (
            row["occupancy_frac"] < LOW_OCCUPANCY and row.get("category") not in MATRIX_CATEGORIES
        ),
    )


def repeated_passes(seen: Seen) -> float | None:
    """Return the share of the autograd graph's nodes that run again, as a retained graph's do."""
    if seen.facts is None or second_order(seen.facts):
        return None
    passes = graph_passes(seen.facts)
    return passes.repeated_frac if passes.calls else None


def top_kernel(seen: Seen) -> float | None:
    """Return the longest kernel's share of the step, without matrix products."""
    if seen.facts is None or not seen.facts.rows("kernels") or not seen.run.step_ns:
        return None
    taken = Counter[str]()
    for row in seen.facts.rows("kernels"):
        if row.get("category") not in (*MATRIX_CATEGORIES, "communication"):
            taken[kernel_family(str(row["name"]))] += row.get("total_ns") or 0
    longest_ns = max(taken.values(), default=0)
    return min(1.0, longest_ns / seen.facts.steps / seen.run.step_ns)


def workers_off(seen: Seen) -> float | None:
    """Return the difference between the loader's workers and the suggested number."""
    wanted, loader = suggested_workers(seen.run), seen.run.start.loader
    if wanted is None or loader is None or loader.num_workers is None:
        return None
    return float(abs(wanted - loader.num_workers))


def suggested_workers(run: RunResults) -> int | None:
    """Return the number of data workers to use, fewer ones as well as more; None if unknown.

    With workers that keep up, the fetch time is not known: as many stay, but no more than cores.
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
    more = [one for one in (plan, plan.instead) if one is not None and one.num_workers]
    if more:
        return more[0].num_workers
    return 0 if plan.change is LoaderChange.NO_WORKERS and now > cores else min(now, cores)


FIGURES: dict[str, Figure] = {
    "slow_steps_share_frac": slow_steps,
    "data_share_frac": share(Phase.DATA_WAIT, Phase.HOST_TO_DEVICE),
    **{f"{phase.value}_share_frac": share(phase) for phase in Phase},
    "dominant_phases_count": dominant_phases,
    "thin_calls_per_step_count": lambda seen: seen.work.thin_calls if seen.work else None,
    "copies_frac": transfers,
    "host_over_device_count": of_device(
        "busy_ns", lambda facts: sum(op.self_ns for op in facts.operators.values())
    ),
    "gemm_frac": of_trace("gemm_frac"),
    "other_kernels_frac": lambda seen: (
        None if (gemm := FIGURES["gemm_frac"](seen)) is None else 1 - gemm
    ),
    "sync_frac": of_device("span_ns", TraceFacts.sync_ns),
    "launch_gaps_frac": of_device(
        "span_ns", lambda facts: facts.idle_ns("launch_latency", "kernel_gap")
    ),
    "memory_bound_frac": memory_bound,
    "top_kernel_frac": top_kernel,
    "tensor_core_frac": of_trace("tensor_core_frac"),
    "few_warps_frac": few_warps,
    "repeated_passes_frac": repeated_passes,
    "filled_frac": lambda seen: seen.run.memory.filled_frac if seen.run.memory else None,
    "peak_reserved_frac": lambda seen: seen.run.memory.peak_frac if seen.run.memory else None,
    "workers_off_count": workers_off,
}
"""The figures by name, as questions.toml has them."""
