"""The model computes in 64-bit precision without having been asked to.

## What it measures
`double_frac`: the share of parameter tensors of type float64 in a run whose Trainer `precision` is
not 64 bit and whose default type is not float64; from a trace, `operators_ns`: the time per step in
operators long enough for their arithmetic to matter, on a GPU that of all kernels.

## Why it matters
numpy computes in float64 by default. A dataset that hands its arrays on as they are, and a
`model.double()` that makes the error message go away, double every byte that is moved and halve
the arithmetic of a CPU; most GPUs compute 32 to 64 times as slowly in float64.

## What to do
Turn the data into float32 once (`array.astype("float32")`), leave `.double()` out, and compute the
few sums that need it in float64.

## Thresholds
`MOST_FRAC`: most tensors, for a few may be meant so. `LOW_FRAC` to `HIGH_FRAC`: half the bytes and
twice as many numbers per instruction, if the operators are limited by either; Python and dispatch
stay as they are. On a GPU `HIGH_GPU_FRAC`: by the smallest ratio of rates, in the steps that the
device holds up (`savings/hidden.py`). Who asks for float64 through the Trainer
(`precision="64-true"`) or `torch.set_default_dtype` means it, as do models that differentiate twice
(second-order nodes in the trace): nothing is said. Severity: the common scale
(`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.graph_nodes import second_order
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.savings.host_work import host_work
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range
from lightning_gpuprof.findings.no_trace import KERNELS, OPERATORS, no_trace
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.units import duration, percent

ID = "double-precision"
EFFORT = Effort(Horizon.QUICK, "the data in float32, no .double()", "losses differ: compare them")
MOST_FRAC = 0.5
LOW_FRAC, HIGH_FRAC, HIGH_GPU_FRAC = 0.3, 0.6, 0.97


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where float64 came by accident."""
    dtypes = run.start.model.get("dtypes")
    if run.step_ns is None or not isinstance(dtypes, dict) or not dtypes:
        return Abstained(ID, "the types of the parameters were not recorded")
    share = dtypes.get("float64", 0) / max(1, sum(dtypes.values()))
    if share < MOST_FRAC or _asked_for(run):
        return None
    facts, work = trace_facts(run), host_work(run)
    if facts is None or work is None:
        return no_trace(ID, OPERATORS)
    if second_order(facts):
        return None
    if run.on_gpu and not facts.on_device:
        return no_trace(ID, KERNELS)
    if run.on_gpu:  # the host's operators are launches, which no type makes shorter
        operators_ns = round(facts.per_step("gpu", "compute_ns") or 0.0)
        bounds = (share * operators_ns for share in (LOW_FRAC, HIGH_GPU_FRAC))
        low, high = faster_kernels(run, run.step_ns, *bounds)
    else:
        optimizer = run.per_step(Phase.OPTIMIZER_STEP)
        operators_ns = min(work.heavy_ns, work.compute_ns) + (optimizer.mean_ns if optimizer else 0)
        low, high = round(LOW_FRAC * operators_ns), round(HIGH_FRAC * operators_ns)
    saving = Range(low=low, high=high)
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"{percent(share)} of the parameters are float64: {duration(operators_ns)} of each "
        f"step ({percent(operators_ns / run.step_ns)}) is computed in 64 bits",
        advice="Convert the data to float32 where it is made, and remove .double(). Keep float64 "
        "for the few sums that need it.",
        evidence={
            "double_frac": share,
            "operators_ns": operators_ns,
            "step_ns": run.step_ns,
        },
        saving_ns=saving,
        confidence=0.8,
        change='array.astype("float32")  # in the dataset; and no model.double()',
    )


def _asked_for(run: RunResults) -> bool:
    precision = str(run.start.trainer.get("precision", ""))
    return precision.startswith("64") or run.start.model.get("default_dtype") == "float64"
