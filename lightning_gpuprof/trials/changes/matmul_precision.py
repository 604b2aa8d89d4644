"""Computes matrix products of float32 as TensorFloat-32, which has less precision."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    device = run.start.device
    if device is None or device.type != "cuda" or float(device.capability or 0) < 8:
        return "there is no NVIDIA GPU that has TensorFloat-32"
    precision = run.start.torch_settings.get("float32_matmul_precision")
    return ["high"] if precision == "highest" else f"it is {precision!r} already"


CHANGE = Change(
    values=_values,
    write=lambda precision, run: ChangedSettings(
        lines=(f'torch.set_float32_matmul_precision("{precision}")',)
    ),
    phases=PASSES,
    findings=("low-precision-unused",),
    alters="matrix products have 10 bits of mantissa instead of 23",
)
