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
    """Return the cost of a call, or None where the operator or its arguments are not known.

    >>> mm = OpArguments(dims=([2, 3], [3, 4]), dtypes=("float", "float"))
    >>> operator_cost("aten::mm", mm)
    Cost(flop_count=48, num_bytes=104, dtype='fp32', unit='matrix', category='gemm')
    """
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
    stride, padding, dilation = (call.ints(first + i) for i in range(3))
    transposed, groups = call.value(first + 3), call.value(first + 5)
    if not isinstance(groups, int):
        raise UnknownArgumentError
    spatial = len(x) - 2
    s, p, d = (v * spatial if len(v) == 1 else v for v in (stride, padding, dilation))
    if transposed:
        extra = call.ints(first + 4)
        extra = extra * spatial if len(extra) == 1 else extra
        sizes = tuple(
            (n - 1) * s[i] - 2 * p[i] + d[i] * (w[2 + i] - 1) + extra[i] + 1
            for i, n in enumerate(x[2:])
        )
        out = (x[0], w[1] * groups, *sizes)
        # Each input element meets the whole filter of its group.
        return 2 * prod(x) * w[1] * prod(w[2:]), prod(out)
    sizes = tuple(
        (n + 2 * p[i] - d[i] * (w[2 + i] - 1) - 1) // s[i] + 1 for i, n in enumerate(x[2:])
    )
    out = (x[0], w[0], *sizes)
    return 2 * prod(out) * w[1] * prod(w[2:]), prod(out)


def _convolution_backward(call: OperatorCall) -> Cost:
    """Cost of the gradients asked for: each of input and weight costs what the forward does."""
    flops, _ = _convolved(call, 1, 2, 4)
    asked = call.value(10)
    if not isinstance(asked, list) or len(asked) < 2:
        raise UnknownArgumentError
    grad, data, weight = (call.footprint(i) for i in range(3))
    moved = (grad + weight + data) * bool(asked[0]) + (grad + data + weight) * bool(asked[1])
    return call.cost(flops * (bool(asked[0]) + bool(asked[1])), moved, MATRIX, "conv")


def _attention(causal: int) -> Callable[[OperatorCall], Cost]:
    """Two products per score; with a causal mask half of the scores are not needed."""

    def cost(call: OperatorCall) -> Cost:
        flops, moved = _scores(call, 0, causal)
        out = prod(call.shape(0)[:-1]) * call.shape(2)[-1] * call.dtype(0)[1]
        return call.cost(flops, moved + out, MATRIX, "attention")

    return cost


def _attention_backward(causal: int) -> Callable[[OperatorCall], Cost]:
    """Five products per score (the scores anew, and four gradients) against two forward."""

    def cost(call: OperatorCall) -> Cost:
        flops, moved = _scores(call, 1, causal)
        grad = call.footprint(0)
        # Gradient and output are read, and a gradient of each of query, key and value written.
        return call.cost(flops * 5 // 2, 2 * moved + 2 * grad, MATRIX, "attention")

    return cost


def _scores(call: OperatorCall, first: int, causal: int) -> tuple[int, int]:
    """Return forward FLOPs and the bytes of query, key and value ([batch, heads, length, dim])."""
    query, key, value = (call.shape(first + i) for i in range(3))
    if len(query) != 4:
        raise UnknownArgumentError
    flops = 2 * prod(query[:-1]) * key[-2] * (query[-1] + value[-1])
    if call.value(causal):
        flops //= 2
    return flops, sum(call.footprint(first + i) for i in range(3))


def _normalisation(per_element: int, affine: tuple[int, ...]) -> Callable[[OperatorCall], Cost]:
    def cost(call: OperatorCall) -> Cost:
        elements = prod(call.shape(0))
        moved = 2 * call.footprint(0)
        moved += sum(call.footprint(i) for i in affine if call.is_tensor(i))
        return call.cost(per_element * elements, moved, VECTOR, "norm")

    return cost


def _normalisation_backward(call: OperatorCall) -> Cost:
    moved = call.footprint(0) + 2 * call.footprint(1)
    return call.cost(11 * prod(call.shape(1)), moved, VECTOR, "norm")


def _softmax(call: OperatorCall) -> Cost:
    return call.cost(5 * prod(call.shape(0)), 2 * call.footprint(0), VECTOR, "softmax")


def _softmax_backward(call: OperatorCall) -> Cost:
    return call.cost(4 * prod(call.shape(0)), 3 * call.footprint(0), VECTOR, "softmax")


def _embedding(call: OperatorCall) -> Cost:
    rows, width = prod(call.shape(1)), call.shape(0)[-1]
    moved = call.footprint(1) + 2 * rows * width * call.dtype(0)[1]
    return call.cost(0, moved, VECTOR, "embedding")


def _elementwise(inputs: int) -> Callable[[OperatorCall], Cost]:
    """One operation per element of the output, which is as large as the inputs broadcast.

    Functions such as `gelu` take more, but it is bytes that decide here.
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
        return call.cost(prod(out), moved, VECTOR, "elementwise")

    return cost


def _copy(call: OperatorCall) -> Cost:
    """Write the first input, read the second; copies between devices are no kernel's work."""
    moved = prod(call.shape(0)) * call.dtype(0)[1] + call.footprint(1)
    return call.cost(0, moved, VECTOR, "elementwise")


def _reduction(axes_at: int) -> Callable[[OperatorCall], Cost]:
    def cost(call: OperatorCall) -> Cost:
        shape = call.shape(0)
        axes = _axes(call, axes_at) or tuple(range(len(shape)))
        reduced = {axis % len(shape) for axis in axes} if shape else set()
        out = prod(size for axis, size in enumerate(shape) if axis not in reduced)
        moved = call.footprint(0) + out * call.dtype(0)[1]
        return call.cost(prod(shape), moved, VECTOR, "reduction")

    return cost


def _axes(call: OperatorCall, position: int) -> Shape:
    """Return the reduced axes; none for the overload over everything, as in `sum(x)`."""
    return () if call.argument_count() <= 2 else call.ints(position)


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

MODELS: dict[str, Callable[[OperatorCall], Cost]] = {
    **{f"aten::{name}{end}": _elementwise(1) for name in _UNARY.split() for end in ("", "_")},
    **{f"aten::{name}{end}": _elementwise(2) for name in _BINARY.split() for end in ("", "_")},
    **{f"aten::{name}": _reduction(1) for name in _REDUCTIONS.split()},
    "aten::linalg_vector_norm": _reduction(2),
    **{f"aten::{name}": _elementwise(3) for name in ("addcmul", "addcdiv", "where", "lerp")},
    "aten::mm": _matmul,
    "aten::bmm": _matmul,
    "aten::_scaled_mm": _matmul,
    "aten::addmm": _addmm,
    "aten::addmm_": _addmm,
    "aten::_addmm_activation": _addmm,
    "aten::baddbmm": _addmm,
    "aten::baddbmm_": _addmm,
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": _attention(4),
    "aten::_scaled_dot_product_efficient_attention": _attention(6),
    "aten::_scaled_dot_product_cudnn_attention": _attention(6),
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward(11),
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward(11),
    "aten::_scaled_dot_product_cudnn_attention_backward": _attention_backward(14),
    "aten::native_layer_norm": _normalisation(7, (2, 3)),
    "aten::native_group_norm": _normalisation(7, (1, 2)),
    "aten::_fused_rms_norm": _normalisation(5, (2,)),
    "aten::native_batch_norm": _normalisation(7, (1, 2)),
    "aten::cudnn_batch_norm": _normalisation(7, (1, 2)),
    "aten::miopen_batch_norm": _normalisation(7, (1, 2)),
    "aten::native_layer_norm_backward": _normalisation_backward,
    "aten::native_group_norm_backward": _normalisation_backward,
    "aten::native_batch_norm_backward": _normalisation_backward,
    "aten::cudnn_batch_norm_backward": _normalisation_backward,
    "aten::miopen_batch_norm_backward": _normalisation_backward,
    "aten::_softmax": _softmax,
    "aten::_log_softmax": _softmax,
    "aten::_softmax_backward_data": _softmax_backward,
    "aten::_log_softmax_backward_data": _softmax_backward,
    "aten::embedding": _embedding,
    "aten::copy_": _copy,
}
"""How each operator's cost is found. Argument positions are those of ATen's schemas."""
