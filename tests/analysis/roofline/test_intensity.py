import pytest
import torch
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from lightning_gpuprof.analysis.roofline.intensity import arithmetic_intensity
from lightning_gpuprof.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "shapes", "options", "per_byte", "bound"),
    [
        ("mm", ([4096, 4096], [4096, 4096]), {"dtype": "bfloat16"}, 4096 / 3, "compute"),
        ("layer_norm", ([8, 512],), {"dtype": "torch.float32"}, 7 / 8, "memory"),
        ("sum", ([8, 64],), {"values": [[1], False, None]}, 512 / (4 * (512 + 8)), "memory"),
    ],
)
def test_the_intensity_of_an_operator_and_its_side_of_the_ridge(
    name, shapes, options, per_byte, bound
):
    intensity = arithmetic_intensity(name, *shapes, device="NVIDIA H100 80GB HBM3", **options)
    assert (intensity.flop_per_byte, intensity.bound) == (pytest.approx(per_byte), bound)
    assert arithmetic_intensity(name, *shapes, **options).bound is None
    with pytest.raises(ConfigError, match="is not known"):
        arithmetic_intensity(name, [3], dtype="text")


@pytest.mark.parametrize(
    ("name", "function", "shapes"),
    [
        ("matmul", torch.matmul, ([3, 5], [5, 7])),
        ("matmul", torch.matmul, ([2, 3, 5], [2, 5, 7])),
        ("linear", functional.linear, ([2, 3, 5], [7, 5])),
        ("conv2d", functional.conv2d, ([2, 3, 8, 8], [4, 3, 3, 3])),
        ("Conv1d", functional.conv1d, ([2, 3, 8], [4, 3, 3], [4])),
    ],
)
def test_names_that_people_write_have_the_flops_that_torch_counts(name, function, shapes):
    with FlopCounterMode(display=False) as counter:
        function(*(torch.ones(shape) for shape in shapes))
    assert arithmetic_intensity(name, *shapes).flop_count == counter.get_total_flops()


def test_a_bias_of_linear_and_a_stride_count():
    plain, biased = (
        arithmetic_intensity("linear", (8, 5), (7, 5), *bias) for bias in ((), ((7,),))
    )
    assert biased.flop_count == plain.flop_count + 8 * 7
    strided = arithmetic_intensity("conv2d", (1, 3, 8, 8), (4, 3, 2, 2), values=[2])
    assert strided.flop_count == 2 * 4 * 4 * 4 * 3 * 2 * 2


def test_causal_attention_computes_half_the_scores():
    shapes = ((2, 4, 8, 16),) * 3
    whole = arithmetic_intensity("scaled_dot_product_attention", *shapes)
    causal = arithmetic_intensity("attention", *shapes, values=[True])
    assert whole.flop_count == 2 * (2 * 2 * 4 * 8 * 8 * 16)  # scores, and their sum of values
    assert 2 * causal.flop_count == whole.flop_count


def test_gelu_has_its_own_count():
    assert arithmetic_intensity("gelu", (10,)).flop_count == 5 * 10
    assert arithmetic_intensity("relu", (10,)).flop_count == 10


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="No operator is called 'matmull'") as error:
        arithmetic_intensity("matmull", (2, 2), (2, 2))
    for name in ("matmul", "layernorm", "conv2d", "attention", "gelu", "addmm"):
        assert name in str(error.value)


def test_shapes_that_do_not_suit_the_operator_are_shown():
    with pytest.raises(
        ConfigError, match=r"matmul with \(2, 3\), \(4, 5\) in float32 is not known"
    ):
        arithmetic_intensity("matmul", (2, 3), (4, 5))
