"""Lets matrix products of float32 run as TensorFloat-32: they lose precision."""

from lightning_gpuprof.analysis.run.run_results import RunResults
from lightning_gpuprof.trials.change import PASSES, Change, Values


def _values(run: RunResults) -> Values:
    device = run.start.device
    if device is None or device.type != "cuda" or float(device.capability or 0) < 8:
        return "there is no NVIDIA GPU that has TensorFloat-32"
    now = run.start.torch_settings.get("float32_matmul_precision")
    return ["high"] if now == "highest" else f"it is {now}"


CHANGE = Change(
    values=_values,
    write=lambda value, run: {"lines": [f'torch.set_float32_matmul_precision("{value}")']},
    phases=PASSES,
    findings=("low-precision-unused",),
    alters="matrix products have 10 bits of mantissa in place of 23",
)
