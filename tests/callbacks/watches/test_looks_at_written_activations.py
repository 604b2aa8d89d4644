import math

import pytest
import torch
from look_models import Model
from torch.nn import functional


class Writes(Model):
    """A wide layer, and what `act` makes of it."""

    def __init__(self, act):
        super().__init__()
        self.wide = torch.nn.Linear(32, 5_000)
        self.act = act

    def inside(self, x):
        return self.act(self.wide(4 * x))


def _gelu(x):
    cube = 0.044715 * torch.pow(x, 3)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + cube)))


@pytest.mark.parametrize(
    ("act", "call", "functions"),
    [
        (_gelu, 'gelu(x, approximate="tanh")', 8),
        (lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)), "gelu(x)", 5),
        (lambda x: torch.sigmoid(x) * x, "silu(x)", 2),
        (lambda x: x.mul(functional.softplus(x).tanh()), "mish(x)", 3),
        (lambda x: (1 + x.exp()).log(), "softplus(x)", 3),
        (lambda x: x * functional.relu6(x + 3) / 6, "hardswish(x)", 4),
    ],
)
def test_an_activation_that_is_written_out_is_noted_by_its_values(look, act, call, functions):
    (found,) = look(Writes(act)).activations
    assert (found.call, found.calls, found.functions) == (call, 1, functions)
    assert found.numbers == 4 * 5_000
    assert (found.taken_ns, found.written_ns, found.fused_ns) == (10 * functions, 10, 10)
    assert found.places[-1].function in ("_gelu", "<lambda>")


@pytest.mark.parametrize(
    "act",
    [
        functional.gelu,
        lambda x: x * torch.sigmoid(1.702 * x),
        lambda x: x * torch.sigmoid(x + 1e-3),
        lambda x: x * torch.sigmoid(x.flip(1)),
        lambda x: x.square() * torch.sigmoid(x.square()),  # nothing below 0 tells it apart
        lambda x: x[:, :100] * torch.sigmoid(x[:, :100]),  # small
        lambda x: x.bfloat16() * torch.sigmoid(x.bfloat16()),
    ],
)
def test_what_no_function_of_torchs_gives_or_is_small_is_not(look, act):
    assert look(Writes(act)).activations == ()


def test_of_small_values_that_several_give_nearly_the_nearest_is_meant(look):
    class Small(Writes):
        def inside(self, x):
            return self.act(self.wide(0.01 * x))

    (found,) = look(Small(lambda x: 0.5 * x * (1 + torch.erf(x / 2**0.5)))).activations
    assert found.call == "gelu(x)"
