"""FLOPs and bytes of one operator call, from its recorded shapes.

FLOPs are counted as 2 per multiply-add. Bytes are the least that must move: each input is read
once and each output written once; what a stride of 0 repeats is read once. Caches may save more,
and kernels may move more. Where a shape or value that matters was not recorded there is no cost.
"""

from collections.abc import Callable
from math import prod

from lightning_gpuprof.analysis.roofline.op_call import (
    MATRIX,
    VECTOR,
    Cost,
    OperatorCall,
    Shape,
    UnknownArgumentError,
    broadcast,
)
from lightning_gpuprof.traces.timeline import OpArguments


def operator_cost(name: str, arguments: OpArguments) -> Cost | None:
    """Return the cost of a call, or None where the operator or its arguments are not known."""
    model = MODELS.get(name)
    if model is None:
        return None
    try:
        return model(OperatorCall(name, arguments))
    except (UnknownArgumentError, ValueError, ZeroDivisionError):
        return None


def _product(call: OperatorCall, left: int, right: int) -> tuple[int, int]:
    """Return FLOPs and output elements of a (batched) matrix product, batches broadcast."""
    a, b = call.shape(left), call.shape(right)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise UnknownArgumentError
    out = (*broadcast(a[:-2], b[:-2]), a[-2], b[-1])
    return 2 * prod(out) * a[-1], prod(out)


def _matmul(call: OperatorCall) -> Cost:
    flops, out = _product(call, 0, 1)
    moved = call.footprint(0) + call.footprint(1) + out * call.dtype(0)[1]
    return call.cost(flops, moved, MATRIX, "gemm")


def _addmm(call: OperatorCall) -> Cost:
    """Add a bias or matrix (first input) to a product: one more operation per element."""
    flops, out = _product(call, 1, 2)
    moved = sum(map(call.footprint, range(3))) + out * call.dtype(1)[1]
    return call.cost(flops + out, moved, MATRIX, "gemm", of=1)


def _convolution(call: OperatorCall) -> Cost:
    flops, out = _convolved(call, 0, 1, 3)
    moved = call.footprint(0) + call.footprint(1) + out * call.dtype(0)[1]
    return call.cost(flops, moved, MATRIX, "conv")


def _convolved(call: OperatorCall, data: int, weight: int, first: int) -> tuple[int, int]:
    """Return FLOPs and output elements; `first` is the position of the strides' argument."""
    x, w = call.shape(data), call.shape(weight)
    spatial = len(x) - 2
    stride, padding, dilation = (
        v * spatial if len(v) == 1 else v for v in (call.ints(first + i) for i in range(3))
    )
    if call.value(first + 3):  # transposed
        raise UnknownArgumentError
    out = x[0] * w[0]
    for n, k, s, p, d in zip(x[2:], w[2:], stride, padding, dilation, strict=True):
        out *= (n + 2 * p - d * (k - 1) - 1) // s + 1
    return 2 * out * prod(w[1:]), out


def _convolution_backward(call: OperatorCall) -> Cost:
    """Cost of the gradients asked for: each of input and weight costs what the forward does."""
    flops, _ = _convolved(call, 1, 2, 4)
    asked = call.value(10)
    if not isinstance(asked, list):
        raise UnknownArgumentError
    gradients = sum(map(bool, asked[:2]))
    moved = gradients * sum(map(call.footprint, range(3)))
    return call.cost(gradients * flops, moved, MATRIX, "conv")


def _attention(causal: int, *, backward: bool = False) -> Callable[[OperatorCall], Cost]:
    """Return the cost of two products per score, or five backward; a causal mask halves the scores.

    `causal` is the position of that argument; tensors are [batch, heads, length, dim].
    """

    def cost(call: OperatorCall) -> Cost:
        first = int(backward)  # the output's gradient comes before query, key and value
        query, key, value = (call.shape(first + i) for i in range(3))
        if len(query) != 4:
            raise UnknownArgumentError
        flops = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
        flops //= 2 if call.value(causal) else 1
        moved = sum(call.footprint(first + i) for i in range(3))
        if backward:  # gradient and output are read, three gradients written
            return call.cost(flops * 5 // 2, 2 * (moved + call.footprint(0)), MATRIX, "attention")
        out = prod(query[:-1]) * value[-1] * call.dtype(0)[1]
        return call.cost(flops, moved + out, MATRIX, "attention")

    return cost


def _streamed(
    category: str, per_element: int, passes: int, of: int = 0
) -> Callable[[OperatorCall], Cost]:
    """Return the cost of a number of operations per element, and of passes over input `of`."""

    def cost(call: OperatorCall) -> Cost:
        flops = per_element * prod(call.shape(of))
        return call.cost(flops, passes * call.footprint(of), VECTOR, category)

    return cost


def _embedding(call: OperatorCall) -> Cost:
    rows, width = prod(call.shape(1)), call.shape(0)[-1]
    moved = call.footprint(1) + 2 * rows * width * call.dtype(0)[1]
    return call.cost(0, moved, VECTOR, "embedding")


def _elementwise(inputs: int, per_element: int = 1) -> Callable[[OperatorCall], Cost]:
    """Return the cost of operations per element of the output, to which the inputs broadcast.

    A function such as `exp` or `erf` counts as one operation.
    """

    def cost(call: OperatorCall) -> Cost:
        tensors = [i for i in range(inputs) if call.is_tensor(i)]
        elements = {i: prod(call.shape(i)) for i in tensors}
        # Of scalars and tensors, tensors decide the output's type.
        size = max(call.dtype(i)[1] for i in tensors if elements[i] == max(elements.values()))
        out: Shape = ()
        for index in tensors:
            out = broadcast(out, call.shape(index))
        moved = sum(map(call.footprint, tensors)) + prod(out) * size
        return call.cost(per_element * prod(out), moved, VECTOR, "elementwise")

    return cost


def _copy(call: OperatorCall) -> Cost:
    """Write the first input, read the second; copies between devices are no kernel's work."""
    moved = prod(call.shape(0)) * call.dtype(0)[1] + call.footprint(1)
    return call.cost(0, moved, VECTOR, "elementwise")


def _reduction(call: OperatorCall) -> Cost:
    """Reduce some axes; all with the overload of few arguments, as in `sum(x)`."""
    shape = call.shape(0)
    axes = () if call.argument_count <= 2 else call.ints(1)
    reduced = {axis % len(shape) for axis in axes or range(len(shape))}
    out = prod(size for axis, size in enumerate(shape) if axis not in reduced)
    moved = call.footprint(0) + out * call.dtype(0)[1]
    return call.cost(prod(shape), moved, VECTOR, "reduction")


_UNARY = (
    "abs exp log log1p sqrt rsqrt neg sin cos tanh sigmoid relu gelu silu erf reciprocal "
    "leaky_relu elu hardswish mish softplus clamp clamp_min clamp_max pow square floor round "
    "logical_not bitwise_not"
)
_BINARY = (
    "add sub rsub mul div maximum minimum gelu_backward silu_backward threshold_backward "
    "tanh_backward sigmoid_backward leaky_relu_backward"
)
_REDUCTIONS = "sum mean amax amin prod var std"
_NORMS = "native_layer_norm native_group_norm native_batch_norm cudnn_batch_norm miopen_batch_norm"
_SOFTMAXES = ("_softmax", "_log_softmax")

MODELS: dict[str, Callable[[OperatorCall], Cost]] = {
    **{f"aten::{name}{end}": _elementwise(1) for name in _UNARY.split() for end in ("", "_")},
    **{f"aten::{name}{end}": _elementwise(2) for name in _BINARY.split() for end in ("", "_")},
    "aten::gelu": _elementwise(1, 5),  # x / 2 * (1 + erf(x / sqrt(2)))
    "aten::silu": _elementwise(1, 4),  # x / (1 + exp(-x))
    **{f"aten::{name}": _elementwise(3) for name in ("addcmul", "addcdiv", "where", "lerp")},
    **{f"aten::{name}_": _elementwise(3) for name in ("addcmul", "addcdiv", "lerp")},
    **{f"aten::{name}": _reduction for name in _REDUCTIONS.split()},
    **{f"aten::{name}": _streamed("norm", 7, 2) for name in _NORMS.split()},
    **{f"aten::{name}_backward": _streamed("norm", 11, 3, 1) for name in _NORMS.split()},
    "aten::_fused_rms_norm": _streamed("norm", 5, 2),
    **{f"aten::{name}": _matmul for name in ("mm", "bmm", "_scaled_mm")},
    **{f"aten::{name}": _addmm for name in ("addmm", "_addmm_activation", "baddbmm")},
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{
        f"aten::_scaled_dot_product_{name}{end}": _attention(causal, backward=bool(end))
        for name, *positions in (
            ("flash_attention", 4, 11),
            ("efficient_attention", 6, 11),
            ("cudnn_attention", 6, 14),
            ("flash_attention_for_cpu", 4, 7),
        )
        for causal, end in zip(positions, ("", "_backward"), strict=True)
    },
    **{f"aten::{name}": _streamed("softmax", 5, 2) for name in _SOFTMAXES},
    **{f"aten::{name}_backward_data": _streamed("softmax", 4, 3) for name in _SOFTMAXES},
    "aten::embedding": _embedding,
    "aten::copy_": _copy,
    "aten::_to_copy": _streamed("copy", 0, 1),
}
"""How each operator's cost is found. Argument positions are those of ATen's schemas."""
