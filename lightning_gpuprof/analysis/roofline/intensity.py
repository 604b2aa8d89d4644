"""FLOPs per byte of a single operator, by the names that people write."""

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from lightning_gpuprof.analysis.roofline.op_costs import MODELS, operator_cost
from lightning_gpuprof.analysis.roofline.roofline import roofs_of
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.hardware.lookup import find_peaks
from lightning_gpuprof.traces.timeline import OpArguments

_DTYPES = {"float32": "float", "bfloat16": "c10::BFloat16", "float16": "c10::Half"}
_Shapes = tuple[Sequence[int], ...]
_Values = tuple[object, ...]
_Call = tuple[str, _Shapes, _Values]
"""An operator of ATen, its tensors' shapes, and its arguments after them."""


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
        operator: A name such as `matmul`, `linear`, `layernorm`, `conv2d`, `attention` or `gelu`,
            or an operator of ATen, such as `mm` or `aten::addmm`.
        shapes: Those of its tensors, in the order of its arguments: input, weight and bias of
            `linear` and `conv2d`, queries, keys and values of `attention`.
        dtype: Their type: float32, bfloat16 or float16.
        values: Arguments after the tensors, where the work depends on them: stride, padding and
            dilation of a convolution, whether attention is causal.
        device: A GPU by name, such as `NVIDIA H100 80GB HBM3`.

    Returns:
        The intensity, with the lower roof as `bound`: None where the device's peaks are not known.

    >>> arithmetic_intensity("matmul", (512, 512), (512, 512), dtype="bfloat16").flop_per_byte
    170.66666666666666

    Raises:
        ConfigError: The operator is not known, or these shapes do not suit it.
    """
    name, dims, arguments = _aten_call(operator, shapes, tuple(values))
    recorded = OpArguments(
        dims=(*map(list, dims), *([] for _ in arguments)),
        dtypes=(_DTYPES.get(dtype.removeprefix("torch."), dtype),) * len(dims),
        values=("",) * len(dims) + tuple(map(str, arguments)),
    )
    cost = operator_cost(name, recorded)
    if cost is None or not cost.num_bytes:
        given = ", ".join(str(tuple(shape)) for shape in shapes) or "no shapes"
        raise ConfigError(
            f"The cost of {operator} with {given} in {dtype} is not known. Pass the shapes of all "
            "its tensors, in the order of its arguments, and what its work depends on as values=."
        )
    per_byte, bound = cost.flop_count / cost.num_bytes, None
    flop_per_s, bytes_per_s = roofs_of(find_peaks(device).peaks, cost.dtype, cost.unit)
    if flop_per_s and bytes_per_s:
        bound = "compute" if per_byte >= flop_per_s / bytes_per_s else "memory"
    return Intensity(cost.flop_count, cost.num_bytes, per_byte, bound)


def _aten_call(operator: str, shapes: _Shapes, values: _Values) -> _Call:
    """Return the operator of ATen that a name means, with its arguments."""
    short = operator.removeprefix("aten::")
    written = _WRITTEN.get(short.lower().replace("_", ""))
    if written is not None and f"aten::{short}" not in MODELS:
        return written(shapes, values)
    names = (f"aten::{variant}" for variant in (short, f"native_{short}", f"_{short}"))
    name = next((name for name in names if name in MODELS), None)
    if name is None:
        public = sorted(
            name.removeprefix("aten::") for name in MODELS if not name.startswith("aten::_")
        )
        raise ConfigError(
            f"No operator is called {operator!r}. Known are {', '.join(_WRITTEN)}, and of ATen: "
            f"{', '.join(public)}."
        )
    return name, shapes, values


def _linear(shapes: _Shapes, values: _Values) -> _Call:
    """Return the product of `linear(input, weight, bias)`: weights are [outputs, inputs]."""
    if len(shapes) not in (2, 3) or not all(shapes[:2]):
        return "aten::mm", shapes, values
    data, weight, *bias = shapes
    product = ((prod(data[:-1]), data[-1]), tuple(reversed(weight)))
    return ("aten::addmm", (*bias, *product), values) if bias else ("aten::mm", product, values)


def _convolution(shapes: _Shapes, values: _Values) -> _Call:
    stride, padding, dilation = (*values, *(1, 0, 1)[len(values) :])[:3]
    bias = shapes[2:3] or ((),)
    arguments = ([stride], [padding], [dilation], False, [0], 1)
    return "aten::convolution", (*shapes[:2], *bias), arguments


def _attention(shapes: _Shapes, values: _Values) -> _Call:
    causal = bool(values[0]) if values else False
    return "aten::_scaled_dot_product_flash_attention_for_cpu", shapes, (0.0, causal)


def _same(name: str) -> Callable[[_Shapes, _Values], _Call]:
    return lambda shapes, values: (f"aten::{name}", shapes, values)


_WRITTEN: dict[str, Callable[[_Shapes, _Values], _Call]] = {
    "matmul": _same("bmm"),
    "linear": _linear,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "conv3d": _convolution,
    "attention": _attention,
    "scaleddotproductattention": _attention,
    "layernorm": _same("native_layer_norm"),
    "groupnorm": _same("native_group_norm"),
    "batchnorm": _same("native_batch_norm"),
    "rmsnorm": _same("_fused_rms_norm"),
    "softmax": _same("_softmax"),
    "logsoftmax": _same("_log_softmax"),
}
"""Names that people write, without underscores, and the call of ATen that each means."""
