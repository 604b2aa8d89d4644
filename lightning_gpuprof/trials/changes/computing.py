"""How a step is computed: threads, the optimizer's form, torch.compile, precision."""

import os
import shutil
from pathlib import Path

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.trials.change import Change, Values

FUSED = ("Adam", "AdamW", "SGD", "Adagrad")
"""These have a fused form on CPUs and GPUs."""
CPUINFO = Path("/proc/cpuinfo")
CPU_FLAGS = ("amx_bf16", "avx512_bf16")
_PASSES = (Phase.FORWARD, Phase.BACKWARD)


def _threads(run: RunResults) -> Values:
    cores, now = run.cores or 1, run.start.torch_threads
    if run.on_gpu:
        return "the GPU computes"
    ladder = {cores, *(2**power for power in range(8) if 2**power < cores)} - {now}
    return sorted(ladder, reverse=True) or f"there is one core, and {now} thread"


def _optimizer(run: RunResults) -> Values:
    used = run.start.model.get("optimizers") or []
    if not used or any(one.get("package") != "torch" for one in used):
        return "its optimizer is none of torch's own"
    if any(one.get("fused") for one in used):
        return "it is fused"
    fused = ["fused"] if all(one["class"] in FUSED for one in used) else []
    # On a GPU that is torch's choice already.
    each = [] if run.on_gpu or any(one.get("foreach") for one in used) else ["foreach"]
    return [*fused, *each] or "torch has no faster form of it"


def _compile(run: RunResults) -> Values:
    variable, usual = ("CC", "gcc") if run.on_gpu else ("CXX", "g++")
    if not shutil.which(os.environ.get(variable, usual)):
        return f"torch.compile finds no compiler here ({usual})"
    return "it is compiled" if run.start.model.get("compiled") else [True]


def _bf16(run: RunResults) -> Values:
    now = run.start.trainer.get("precision")
    if now not in (None, "32-true"):
        return f"it trains with {now}"
    words = CPUINFO.read_text(encoding="utf-8").split() if CPUINFO.exists() else []
    if not run.on_gpu and not any(flag in words for flag in CPU_FLAGS):
        return "this processor computes bfloat16 no faster"
    return ["bf16-mixed"]


def _tf32(run: RunResults) -> Values:
    device = run.start.device
    if device is None or device.type != "cuda" or float(device.capability or 0) < 8:
        return "there is no NVIDIA GPU that has TensorFloat-32"
    now = run.start.torch_settings.get("float32_matmul_precision")
    return ["high"] if now == "highest" else f"it is {now}"


TORCH_THREADS = Change(
    name="torch_threads",
    values=_threads,
    write=lambda value, run: {"lines": [f"torch.set_num_threads({value})"]},
    phases=(*_PASSES, Phase.OPTIMIZER_STEP),
    findings=("thread-contention", "cpu-quota"),
)
OPTIMIZER = Change(
    name="optimizer",
    values=_optimizer,
    write=lambda value, run: {"optimizer": {value: True}},
    phases=(Phase.OPTIMIZER_STEP,),
    findings=("unfused-optimizer", "host-bound", "small-kernels"),
)
COMPILE = Change(
    name="compile",
    values=_compile,
    write=lambda value, run: {"lines": ["for part in model.children(): part.compile()"]},
    phases=_PASSES,
    findings=("memory-bound-kernels", "small-kernels", "host-bound", "slow-python"),
)
PRECISION = Change(
    name="precision",
    values=_bf16,
    place="Trainer",
    phases=_PASSES,
    findings=("low-precision-unused", "vram-pressure"),
    alters="activations and gradients have the precision of bfloat16",
)
MATMUL_PRECISION = Change(
    name="matmul_precision",
    values=_tf32,
    write=lambda value, run: {"lines": [f'torch.set_float32_matmul_precision("{value}")']},
    phases=_PASSES,
    findings=("low-precision-unused",),
    alters="matrix products have 10 bits of mantissa in place of 23",
)
