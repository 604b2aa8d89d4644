import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from lightning_gpuprof.analysis.roofline.op_costs import operator_cost
from lightning_gpuprof.traces.timeline import OpArguments

BF16 = "c10::BFloat16"


def call(name, dims, dtypes=None, values=(), strides=()):
    dtypes = dtypes or tuple("float" if shape else "Scalar" for shape in dims)
    return operator_cost(name, OpArguments(tuple(dims), dtypes, strides, values))


def counted(function, *shapes):
    """FLOPs by torch's own counter."""
    with FlopCounterMode(display=False) as counter:
        function(*(torch.ones(shape) for shape in shapes))
    return counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("aten::mm", torch.mm, ([3, 5], [5, 7])),
        ("aten::bmm", torch.bmm, ([2, 3, 5], [2, 5, 7])),
    ],
)
def test_products_have_the_flops_that_torch_counts(name, function, shapes):
    assert call(name, shapes).flop_count == counted(function, *shapes)


def test_a_bias_adds_one_operation_per_element_and_its_bytes():
    dtypes = BF16, BF16, BF16, "Scalar", "Scalar"
    cost = call("aten::addmm", ([7], [3, 5], [5, 7], [], []), dtypes)

    assert cost.flop_count == 2 * 3 * 5 * 7 + 3 * 7
    assert cost.num_bytes == 2 * (7 + 3 * 5 + 5 * 7 + 3 * 7)
    assert cost.dtype == "bf16"


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"stride": 2, "padding": 1}, ("[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1")),
        ({"dilation": 2, "groups": 2}, ("[1, 1]", "[0, 0]", "[2, 2]", "False", "[0, 0]", "2")),
    ],
)
def test_convolutions_have_the_flops_that_torch_counts(options, values):
    data, weight = [2, 4, 9, 11], [6, 4 // options.get("groups", 1), 3, 3]
    dims = (data, weight, *[[]] * 7)
    cost = call("aten::convolution", dims, values=("", "", "", *values))

    def convolve(x, w):
        return torch.nn.functional.conv2d(x, w, **options)

    assert cost.flop_count == counted(convolve, data, weight)
    out = convolve(torch.ones(data), torch.ones(weight)).numel()
    assert cost.num_bytes == 4 * (2 * 4 * 9 * 11 + torch.ones(weight).numel() + out)


@pytest.mark.parametrize(
    ("mask", "times"), [("[True, True, False]", 2), ("[False, True, True]", 1)]
)
def test_a_convolutions_backward_costs_a_forward_for_each_gradient_asked_for(mask, times):
    grad, data, weight = [2, 6, 9, 9], [2, 4, 9, 9], [6, 4, 1, 1]
    values = ("", "", "", "[0]", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", "1", mask)
    cost = call("aten::convolution_backward", (grad, data, weight, *[[]] * 8), values=values)

    assert cost.flop_count == times * 2 * 2 * 6 * 9 * 9 * 4


@pytest.mark.parametrize(
    ("name", "causal_at", "inputs"),
    [
        ("aten::_scaled_dot_product_flash_attention", 4, 7),
        ("aten::_scaled_dot_product_efficient_attention", 6, 8),
        ("aten::_scaled_dot_product_cudnn_attention", 6, 9),
    ],
)
def test_a_causal_mask_halves_the_flops_of_attention(name, causal_at, inputs):
    dims = [[2, 4, 16, 8]] * 3 + [[]] * (inputs - 3)
    dtypes = (BF16,) * 3 + ("Scalar",) * (inputs - 3)
    found = {}
    for causal in ("True", "False"):
        values = [""] * inputs
        values[causal_at] = causal
        found[causal] = call(name, dims, dtypes, tuple(values))

    assert found["False"].flop_count == 4 * 2 * 4 * 16 * 16 * 8
    assert found["True"].flop_count * 2 == found["False"].flop_count
    assert found["True"].num_bytes == 4 * 2 * (2 * 4 * 16 * 8)


def test_the_backward_of_attention_costs_two_and_a_half_times_the_forward():
    dims, dtypes = [[2, 4, 16, 8]] * 5 + [[]] * 10, (BF16,) * 5 + ("Scalar",) * 10
    values = ("",) * 11 + ("False", "", "", "")
    cost = call("aten::_scaled_dot_product_flash_attention_backward", dims, dtypes, values)

    assert cost.flop_count == 10 * 2 * 4 * 16 * 16 * 8


def test_elementwise_operators_read_their_inputs_and_write_what_they_broadcast_to():
    cost = call("aten::add", ([4, 5], [5], []), (BF16, BF16, "Scalar"))

    assert (cost.flop_count, cost.num_bytes) == (20, 2 * (20 + 5 + 20))
    scaled = call("aten::mul", ([4, 5], []), (BF16, "double"))
    assert scaled.num_bytes == 2 * (20 + 20) + 8


def test_what_a_stride_of_zero_repeats_is_read_once():
    cost = call("aten::add", ([4, 5], [4, 5]), strides=([5, 1], [0, 1]))

    assert cost.num_bytes == 4 * (20 + 5 + 20)


@pytest.mark.parametrize(
    ("dims", "values", "out"),
    [
        (([4, 5, 6], [], [], []), ("", "[-1]", "True", ""), 20),
        (([4, 5, 6], [], [], []), ("", "[0, 2]", "False", ""), 5),
        (([4, 5, 6], []), (), 1),
    ],
)
def test_reductions_write_what_their_axes_leave(dims, values, out):
    cost = call("aten::sum", dims, values=values)

    assert cost.num_bytes == 4 * (120 + out)


def test_a_table_look_up_moves_the_rows_and_no_flops():
    cost = call("aten::embedding", ([1000, 16], [3, 4]), ("float", "long int"))

    assert (cost.flop_count, cost.num_bytes) == (0, 12 * 8 + 2 * 12 * 16 * 4)


@pytest.mark.parametrize(
    ("name", "dims", "dtypes", "values"),
    [
        ("aten::mm", ([3, 5],), ("float",), ()),
        ("aten::mm", ([3, 5], [4, 7]), ("float", "float"), ()),
        ("aten::mm", ([3, 5], [5, 7]), ("complex<float>", "complex<float>"), ()),
        ("aten::sum", ([4, 5], [], [], []), ("float", "ScalarList", "Scalar", ""), ()),
        ("aten::convolution", ([1, 1, 4, 4], [1, 1, 1, 1]), ("float", "float"), ()),
        ("aten::add", ([[2, 2], [2, 2]],), ("TensorList",), ()),
        ("aten::no_such_operator", ([1],), ("float",), ()),
    ],
)
def test_what_was_not_recorded_has_no_cost(name, dims, dtypes, values):
    assert call(name, dims, dtypes, values) is None
