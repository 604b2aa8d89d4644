"""Matrix products run in full 32-bit precision on a GPU with faster matrix units.

## Symptom
Much of the step is matrix products in 32 bit, on a GPU with matrix units for TF32 and bfloat16.

## Why
Matrix units multiply TF32, bfloat16 and float16 several times as fast as plain 32-bit units do, and
half the bytes move twice as fast.

## Fix
Allow TF32 or train in mixed precision, then compare the loss curves.

```python
Trainer(precision="32-true")  # before
torch.set_float32_matmul_precision("high")  # after
Trainer(precision="bf16-mixed")  # or
```

## How it is measured
`gemm_ns` is the time per step in products, convolutions and attention, from a trace whose kernels
do not use matrix units. The saving assumes that products get at least 1.5 times as fast, and at
most by the ratio of the published peak rates (up to 6 times).

## Limits
Steps that wait for the host or for data do not get shorter, and do not count.
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES
from lightning_gpuprof.findings.model import Effort, Finding, Horizon, Place, Range
from lightning_gpuprof.findings.rule import measured, rule
from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.units import duration, percent

SLOWEST, FASTEST = 1.5, 6.0
MIN_CAPABILITY = 8.0
USED_FRAC = 0.5
"""If matrix units do half of the products already, TF32 is on."""
EFFORT = Effort(Horizon.QUICK, "one line", "losses differ in the third digit: compare the curves")


@rule(id="low-precision-unused", needs=("gpu", "kernels"), effort=EFFORT)
def judge(run: RunResults) -> Finding | None:
    """Return the finding about matrix products that could run in a faster precision."""
    facts, step_ns = measured(trace_facts(run)), measured(run.step_ns)
    precision = settings_of(run.start).precision or ""
    if not precision.startswith("32") or not _capable(run):
        return None
    used_frac = facts.analysis.tensor_core_frac
    if used_frac is None or used_frac >= USED_FRAC:
        return None  # of kernels whose names say nothing, nothing is claimed
    rows = [row for row in facts.analysis.categories if row.category in MATRIX_CATEGORIES]
    kernels = [row for row in facts.analysis.kernels if row.category in MATRIX_CATEGORIES]
    others = [row for row in kernels if row.tensor_cores is not False]
    others_ns = sum(row.total_ns for row in others)
    gemm_ns = max(0, sum(row.total_ns for row in rows) - others_ns) / facts.steps
    least, most = gemm_ns * (1 - 1 / SLOWEST), gemm_ns * (1 - 1 / _speedup(run))
    saving = Range(*faster_kernels(run, step_ns, least, most))
    if not saving.high:
        return None
    return Finding(
        title=f"32-bit matrix products take {duration(gemm_ns)} of each step "
        f"({percent(gemm_ns / step_ns)})",
        advice="Allow TF32, or run in bfloat16 mixed precision; then compare the results.",
        evidence={"gemm_ns": round(gemm_ns)},
        saving_ns=saving,
        cause_ns=Range(round(gemm_ns), round(gemm_ns)),
        confidence=0.7,
        places=tuple(Place(kernel=row.name) for row in kernels if row not in others)[:3],
        setting="matmul_precision=high",
        change='torch.set_float32_matmul_precision("high")\n# or Trainer(precision="bf16-mixed")',
    )


def _capable(run: RunResults) -> bool:
    """Return whether the GPU has matrix units for TF32 and bfloat16."""
    device = run.start.device
    if device is None or device.type == "hip":
        return device is not None
    try:
        return float(device.capability or 0) >= MIN_CAPABILITY
    except ValueError:
        return False


def _speedup(run: RunResults) -> float:
    """Return how much faster products may get, by the GPU's published peaks."""
    device = run.start.device
    match = find_peaks(device.name, memory_bytes=device.total_bytes) if device else None
    rates = match.peaks.flop_per_s if match and match.peaks else {}
    if not rates.get("fp32"):
        return FASTEST
    fast = max(rates.get("tf32", 0.0), rates.get("bf16", 0.0))
    return min(FASTEST, max(SLOWEST, fast / rates["fp32"]))
