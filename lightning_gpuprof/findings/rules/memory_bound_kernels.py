"""Much of the device's time goes to kernels that wait for its memory.

## What it measures
`memory_bound_frac`: the share of kernel time in operators below the roofline's ridge point, or,
where no shapes were recorded, in elementwise, normalisation and reduction kernels, whose arithmetic
intensity is below any GPU's ridge point.

## Why it matters
Such a kernel takes as long as its bytes take to move. Two of them in a row move the same bytes
twice; one fused kernel moves them once.

## What to do
Fuse neighbours: `torch.compile`, `scaled_dot_product_attention`, fused normalisation and
optimizers; use a smaller type (bfloat16), which halves the bytes.

## Thresholds
`MIN_FRAC`: 40% of kernel time, the complement of the 60% that matrix products should have (see
docs/adr/0030). `LOW_KEPT`, `HIGH_KEPT`: fusing a chain of two kernels leaves 2 of 4 passes over
memory, a chain of many at least a quarter. That is of what a compiler fuses (`FUSED`), with a
roofline: at least of the time that its bytes take at the memory's peak, as a kernel that reads
badly is not slow for what is read twice. `MIN_ROOF_FRAC`: a kernel below 10 µs that moves
its bytes ten times slower than the memory could is bound by neither: it has too little work to fill
the device. Steps that wait for the host or for data are no shorter for shorter kernels
(`savings/hidden.py`); what fewer launches save there is small-kernels'. Severity: the common scale
(`findings/grade.py`).
"""

from collections.abc import Mapping
from typing import Any

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.trace.kernels import THIN_NS
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.units import duration, percent

ID = "memory-bound-kernels"
EFFORT = Effort(Horizon.MEDIUM, "compile the model", "first steps take long; new shapes recompile")
MIN_FRAC = 0.40
MIN_ROOF_FRAC = 0.10
LOW_KEPT, HIGH_KEPT = 0.25, 0.75
FUSED = ("elementwise", "norm", "softmax", "reduction")
"""Categories of the roofline. A compiler leaves convolutions, products and attention as they are,
memory-bound or not."""
STREAMING = ("elementwise", "normalisation", "reduction")
MOST = 3


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where kernels that stream memory take a large share."""
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("categories"):
        return no_trace(ID, KERNELS)
    whole = sum(row.get("total_ns") or 0 for row in facts.rows("categories"))
    bound = _bound_ns(facts)
    if not whole or bound < MIN_FRAC * whole:
        return None
    per_step = bound / facts.steps
    by_bytes, fusible = _fusible_ns(facts) or (bound, bound)
    least = (1 - HIGH_KEPT) * by_bytes / facts.steps
    most = (1 - LOW_KEPT) * fusible / facts.steps
    saving = Range(*faster_kernels(run, run.step_ns, least, most))
    if not saving.high:
        return None
    rows = [row for row in facts.rows("kernels") if row.get("category") in STREAMING]
    gemm = facts.number("gemm_frac")
    evidence: dict[str, int | float] = {
        "memory_bound_ns": round(per_step),
        "memory_bound_frac": bound / whole,
        "step_ns": run.step_ns,
    }
    if gemm is not None:
        evidence["gemm_frac"] = gemm
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"{percent(bound / whole)} of the kernel time ({duration(per_step)} per step) is in "
        "kernels bound by memory",
        advice="Fuse elementwise, normalisation and reduction kernels by compiling the model, and "
        "use scaled_dot_product_attention for attention.",
        evidence=evidence,
        saving_ns=saving,
        confidence=0.7 if facts.rows("roofline") else 0.5,
        where=tuple(Where(kernel=str(row["name"])) for row in rows[:MOST]),
        change="model = torch.compile(model)",
        explains=("dominant-kernel",),
    )


def fills_memory(row: Mapping[str, Any]) -> bool:
    """Tell whether kernels of a row of the roofline have bytes enough to be bound by them."""
    rate, peak = row.get("bytes_per_s"), row.get("peak_bytes_per_s")
    kernels = row.get("kernel_count") or row.get("count")
    if not rate or not peak or not kernels:
        return True
    return bool(rate >= MIN_ROOF_FRAC * peak or row.get("total_ns", 0) >= THIN_NS * kernels)


def _fusible_ns(facts: TraceFacts) -> tuple[float, float] | None:
    """Return what kernels that a compiler fuses take for their bytes alone, and in all.

    None where no roofline says what is bound by memory.
    """
    measured = [row for row in facts.rows("roofline") if row.get("bound") == "memory"]
    if not measured:
        return None
    rows = [row for row in measured if row.get("category") in FUSED and fills_memory(row)]
    return sum(map(_bytes_ns, rows)), sum(row.get("total_ns") or 0 for row in rows)


def _bytes_ns(row: Mapping[str, Any]) -> float:
    """Return what a row's bytes take at the memory's peak; all of its time where that is open."""
    total: float = row.get("total_ns") or 0
    moved, peak = (row.get("num_bytes") or 0) * (row.get("count") or 0), row.get("peak_bytes_per_s")
    return min(total, 1e9 * moved / peak) if moved and peak else total


def _bound_ns(facts: TraceFacts) -> float:
    measured = [row for row in facts.rows("roofline") if row.get("bound") == "memory"]
    if measured:
        return float(sum(row.get("total_ns") or 0 for row in measured if fills_memory(row)))
    rows = facts.rows("categories")
    return float(sum(row.get("total_ns") or 0 for row in rows if row.get("category") in STREAMING))
