"""FLOPs per byte of one operator by its shapes, and the side of a device's ridge that it is on."""

from collections.abc import Sequence
from typing import NamedTuple

from lightning_gpuprof.analysis.roofline.op_call import MATRIX
from lightning_gpuprof.analysis.roofline.op_costs import MODELS, operator_cost
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.traces.timeline import OpArguments

_DTYPES = {"float32": "float", "bfloat16": "c10::BFloat16", "float16": "c10::Half"}


class Intensity(NamedTuple):
    """The least work of a call; `bound` is compute or memory."""

    flop_count: int
    num_bytes: int
    flop_per_byte: float
    bound: str | None


def arithmetic_intensity(
    operator: str,
    *shapes: Sequence[int],
    dtype: str = "float32",
    values: Sequence[object] = (),
    device: str | None = None,
) -> Intensity:
    """Return an operator's FLOPs per byte moved, each input read and each output written once.

    Args:
        operator: One of ATen's, such as `mm`, `aten::gelu` or `layer_norm`.
        shapes: Those of its tensors, in the order of its arguments.
        dtype: Their type: float32, bfloat16 or float16.
        values: Arguments after the tensors, where the work depends on them.
        device: A GPU by name, such as `NVIDIA H100 80GB HBM3`.

    Returns:
        The intensity, with the lower roof as `bound`: None where the device's peaks are not known.

    >>> arithmetic_intensity("mm", (512, 512), (512, 512), dtype="bfloat16").flop_per_byte
    170.66666666666666

    Raises:
        ConfigError: The cost of such a call is not known.
    """
    short = operator.removeprefix("aten::")
    names = [f"aten::{one}" for one in (short, f"native_{short}", f"_{short}")]
    arguments = OpArguments(
        dims=(*map(list, shapes), *([] for _ in values)),
        dtypes=(_DTYPES.get(dtype.removeprefix("torch."), dtype),) * len(shapes),
        values=("",) * len(shapes) + tuple(map(str, values)),
    )
    name = next((one for one in names if one in MODELS), operator)
    cost = operator_cost(name, arguments)
    if cost is None or not cost.num_bytes:
        raise ConfigError(
            f"The cost of {operator} with {shapes} in {dtype} is not known. Pass an operator of "
            "ATen, the shapes of all its tensors and what its work depends on."
        )
    peaks, per_byte, bound = find_peaks(device).peaks, cost.flop_count / cost.num_bytes, None
    flops = peaks.flop_per_s.get(cost.dtype if cost.unit == MATRIX else "fp32") if peaks else None
    if peaks and flops and peaks.memory_bytes_per_s:
        bound = "compute" if per_byte >= flops / peaks.memory_bytes_per_s else "memory"
    return Intensity(cost.flop_count, cost.num_bytes, per_byte, bound)
