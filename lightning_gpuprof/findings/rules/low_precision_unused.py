"""Matrix products run in full 32-bit precision on a GPU with faster matrix units.

## What it measures
`gemm_ns`: time per step in matrix products, convolutions and attention, from a trace, in a run
whose Trainer `precision` is 32 bit and whose kernels do not use the matrix units.

## Why it matters
Matrix units (tensor cores, matrix cores) multiply TF32, bfloat16 and float16 several times as fast
as plain 32-bit units do, and half the bytes move twice as fast.

## What to do
Allow TF32 (`torch.set_float32_matmul_precision("high")`), or train in mixed precision
(`Trainer(precision="bf16-mixed")`), and compare the loss curves (`lightning-gpuprof compare`).

## Thresholds
`SLOWEST`: half again as fast is what memory-bound products gain at least. The high bound is the
ratio of the device's published peaks (`hardware/peaks.toml`), at most `FASTEST`: no product reaches
its peak. `MIN_CAPABILITY`: the first NVIDIA GPUs with TF32 and bfloat16 units. Steps that wait for
the host or for data are no shorter for it: they are left out, and no step gets shorter than what
the host takes for one while it fills the device's queue (`savings/hidden.py`). Severity: the common
scale (`findings/grade.py`).
"""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import faster_kernels
from lightning_gpuprof.analysis.trace.kernel_category import MATRIX_CATEGORIES
from lightning_gpuprof.findings.grade import grade
from lightning_gpuprof.findings.model import Abstained, Effort, Finding, Horizon, Range, Where
from lightning_gpuprof.findings.no_trace import KERNELS, no_trace
from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.units import duration, percent

ID = "low-precision-unused"
EFFORT = Effort(Horizon.QUICK, "one line", "losses differ in the third digit: compare the curves")
SLOWEST, FASTEST = 1.5, 6.0
MIN_CAPABILITY = 8.0
USED_FRAC = 0.5
"""Where matrix units do half of the products already, TF32 is on."""


def evaluate(run: RunResults) -> Finding | Abstained | None:
    """Return a finding where a faster precision is there and unused."""
    if not run.on_gpu:
        return Abstained(ID, "on a CPU reduced precision is rarely faster, so it was not judged")
    facts = trace_facts(run)
    if run.step_ns is None or facts is None or not facts.rows("categories"):
        return no_trace(ID, KERNELS)
    if not str(run.start.trainer.get("precision", "")).startswith("32") or not _capable(run):
        return None
    if (facts.number("tensor_core_frac") or 0.0) >= USED_FRAC:
        return None
    rows = [row for row in facts.rows("categories") if row.get("category") in MATRIX_CATEGORIES]
    gemm_ns = sum(row.get("total_ns") or 0 for row in rows) / facts.steps
    speedup = _speedup(run)
    least, most = gemm_ns * (1 - 1 / SLOWEST), gemm_ns * (1 - 1 / speedup)
    saving = Range(*faster_kernels(run, run.step_ns, least, most))
    if not saving.high:
        return None
    return Finding(
        id=ID,
        severity=grade(saving, run.step_ns),
        title=f"Matrix products take {duration(gemm_ns)} of each step "
        f"({percent(gemm_ns / run.step_ns)}) in 32-bit precision",
        advice="Allow TF32, or train in bfloat16 mixed precision; then compare the loss curves.",
        evidence={"gemm_ns": round(gemm_ns), "step_ns": run.step_ns},
        saving_ns=saving,
        confidence=0.7,
        where=tuple(
            Where(kernel=str(row["name"]))
            for row in facts.rows("kernels")
            if row.get("category") in MATRIX_CATEGORIES
        )[:3],
        change='torch.set_float32_matmul_precision("high")\n# or Trainer(precision="bf16-mixed")',
    )


def _capable(run: RunResults) -> bool:
    device = run.start.device
    if device is None or device.type == "hip":
        return device is not None
    try:
        return float(device.capability or 0) >= MIN_CAPABILITY
    except ValueError:
        return False


def _speedup(run: RunResults) -> float:
    device = run.start.device
    found = find_peaks(device.name, memory_bytes=device.total_bytes) if device else None
    peaks = found.peaks if found else None
    rates = peaks.flop_per_s if peaks else {}
    if not rates.get("fp32"):
        return FASTEST
    fast = max(rates.get("tf32", 0.0), rates.get("bf16", 0.0))
    return min(FASTEST, max(SLOWEST, fast / rates["fp32"]))
