"""Much of the device's time goes to kernels that are limited by its memory.

## Symptom
40% of the kernel time or more is in elementwise, normalisation and reduction kernels.

## Why
Such a kernel takes as long as moving its bytes takes. Two of them in a row move the same bytes
twice; a fused kernel moves them once.

## Fix
Fuse neighbouring kernels, and use a smaller type.

```python
model = Model()  # before
model = torch.compile(Model())  # after
```

## How it is measured
`memory_bound_frac` is the share of kernel time below the roofline's ridge point or, without shapes,
in those categories. Fusing saves a quarter to three quarters of it.

## Limits
Kernels that are too small to fill the device do not count, and neither does time in which the
device waits for the host.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import TraceFacts, trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.trace.kernels import fills_memory
from lightning_gpuprof.analysis.trace_tables import RooflineRow
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import evidence_of, measured, rule
from lightning_gpuprof.units import duration, percent

MIN_FRAC = 0.40
LOW_LEFT, HIGH_LEFT = 0.25, 0.75
FUSED = ("elementwise", "norm", "softmax", "reduction")
"""Categories of the roofline that a compiler fuses."""
STREAMING = ("elementwise", "normalisation", "reduction")
MOST = 3
ADVICE = (
    "Fuse elementwise, normalisation and reduction kernels by compiling the model, and use "
    "scaled_dot_product_attention for attention."
)
COMPILED_ADVICE = (
    "torch.compile is in use: look at what it leaves unfused between graph breaks, write such "
    "kernels as one, use a smaller type, and scaled_dot_product_attention for attention."
)
EFFORT = Effort(Horizon.MEDIUM, "compile the model", "first steps take long; new shapes recompile")
COMPILED_EFFORT = Effort(Horizon.LONG, "kernels written as one, or a smaller type", "losses differ")


@rule(id="memory-bound-kernels", needs=("kernels",), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about kernels that are limited by the memory."""
    facts, step_ns = measured(trace_facts(run)), measured(run.step_ns)
    whole = sum(row.total_ns for row in facts.analysis.categories)
    bound = _bound_ns(facts)
    if not whole or bound < MIN_FRAC * whole:
        return None
    per_step = bound / facts.steps
    by_bytes, fusible = _fusible_ns(facts) or (bound, bound)
    least = (1 - HIGH_LEFT) * by_bytes / facts.steps
    most = (1 - LOW_LEFT) * fusible / facts.steps
    saving = Range(*faster_kernels(run, step_ns, least, most))
    if not saving.high:
        return None
    rows = [row for row in facts.analysis.kernels if row.category in STREAMING]
    return Finding(
        title=f"Kernels bound by memory take {percent(bound / whole)} of the kernel time "
        f"({duration(per_step)})",
        advice=COMPILED_ADVICE if facts.compiled else ADVICE,
        evidence=evidence_of(
            memory_bound_ns=round(per_step),
            memory_bound_frac=bound / whole,
            gemm_frac=facts.analysis.gemm_frac,
        ),
        saving_ns=saving,
        cause_ns=Range(round(per_step), round(per_step)),
        confidence=0.7 if facts.analysis.roofline else 0.5,
        places=tuple(Place(kernel=row.name) for row in rows[:MOST]),
        change=None if facts.compiled else "model = torch.compile(model)",
        setting=None if facts.compiled else "compile",
        effort=COMPILED_EFFORT if facts.compiled else EFFORT,
    )


def _fusible_ns(facts: TraceFacts) -> tuple[float, float] | None:
    """Return the time that fusible kernels need for their bytes, and their whole time.

    None without a roofline.
    """
    bound_rows = [row for row in facts.analysis.roofline if row.bound == "memory"]
    if not bound_rows:
        return None
    rows = [row for row in bound_rows if row.category in FUSED and fills_memory(row)]
    return sum(map(_bytes_ns, rows)), sum(row.total_ns for row in rows)


def _bytes_ns(row: RooflineRow) -> float:
    """Return how long a row's bytes take at the memory's peak, its own time if not known."""
    moved = row.num_bytes * row.count
    if not moved or not row.peak_bytes_per_s:
        return row.total_ns
    return min(row.total_ns, 1e9 * moved / row.peak_bytes_per_s)


def _bound_ns(facts: TraceFacts) -> float:
    bound_rows = [row for row in facts.analysis.roofline if row.bound == "memory"]
    if bound_rows:
        return float(sum(row.total_ns for row in bound_rows if fills_memory(row)))
    categories = facts.analysis.categories
    return float(sum(row.total_ns for row in categories if row.category in STREAMING))
