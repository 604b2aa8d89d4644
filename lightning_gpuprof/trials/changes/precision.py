"""Computes in bfloat16 under autocast. Activations and gradients have less precision."""

from pathlib import Path

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.analysis.run.settings import settings_of
from lightning_gpuprof.trials.change import PASSES, Change, Values

CPUINFO = Path("/proc/cpuinfo")
CPU_FLAGS = ("amx_bf16", "avx512_bf16")


def _values(run: RunResults) -> Values:
    precision = settings_of(run.start).precision
    if precision not in (None, "32-true", "16-mixed"):
        return f"it trains with {precision} already"
    flags = CPUINFO.read_text(encoding="utf-8").split() if CPUINFO.exists() else []
    if not run.on_gpu and not any(flag in flags for flag in CPU_FLAGS):
        return "this processor does not compute bfloat16 any faster"
    return ["bf16-mixed"]


CHANGE = Change(
    values=_values,
    place="Trainer",
    phases=PASSES,
    findings=("low-precision-unused", "vram-pressure"),
    alters="activations and gradients have the precision of bfloat16",
)
