"""What is computed again from the same values, as the look at functions sees it."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F


def batch():
    return torch.rand(4, 8), torch.rand(4, 8, requires_grad=True)


def in_a_loop(x, y):
    for turn in range(5):
        y = y + (x @ x.mT).exp().sum() * turn


def test_what_no_turn_of_a_loop_changes_is_noted_with_its_line(looked):
    (found,) = looked(in_a_loop, batch).repeated
    # exp, the product and sum; x.mT is a view and counted nowhere.
    assert (found.times, found.taken_ns, found.trained_ns) == (5, 4 * 3 * 1_000, 0)
    assert [at.source for at in found.places] == ["y = y + (x @ x.mT).exp().sum() * turn"]
    assert found.places[0].function == "in_a_loop"


def apart(x, y):
    left = torch.cdist(x, y)
    right = torch.cdist(x, y).clamp(min=1)
    return left, right


def test_two_places_of_one_function_are_told_once_and_gradients_count(looked):
    (found,) = looked(apart, batch).repeated
    assert (found.times, found.taken_ns, found.trained_ns) == (2, 1_000, 1_000)
    assert {at.source[:5] for at in found.places} == {"left ", "right"}


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x)


def test_the_lines_that_a_module_was_called_through_are_known(looked):
    outer = Outer()

    def twice(x, y):
        return outer(x) + outer(x)

    (found,) = looked(twice, batch, outer).repeated
    assert {at.function for at in found.through} >= {"forward", "twice"}
    assert found.trained_ns == found.taken_ns == 1_000


def alters(write):
    def work(x, y):
        first = x.exp()
        write(x)
        return first + x.exp()

    return work


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x[0].zero_(),
        lambda x: x.__setitem__(0, 2.0),
        lambda x: x.data.add_(1),
        lambda x: x.detach().mul_(2),
        lambda x: x.numpy().fill(3.0),
        lambda x: torch.exp(x, out=x),
    ],
)
def test_a_tensor_that_was_written_to_is_another(looked, write):
    assert looked(alters(write), lambda: (torch.rand(4), None)).repeated == ()


@pytest.mark.parametrize(
    "work",
    [
        lambda x, y: F.dropout(x) + F.dropout(x),
        lambda x, y: torch.rand_like(x).exp() + torch.rand_like(x).exp(),
        lambda x, y: (
            F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
            + F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)
        ),
        lambda x, y: x.exp() + (x + 1).exp(),
        lambda x, y: x.sum(0)[0] + x.sum(1)[0],
        lambda x, y: x[0] + x[0],
        lambda x, y: torch.arange(9).sum() + torch.arange(9).sum(),
        lambda x, y: [torch.native_dropout(x, 0.5, True) for _ in range(2)],
        lambda x, y: torch._standard_gamma(x) + torch._standard_gamma(x),
        lambda x, y: torch._sample_dirichlet(x) + torch._sample_dirichlet(x),
        lambda x, y: torch.binomial(x, x) + torch.binomial(x, x),
        lambda x, y: torch.empty_like(x).exp() + torch.empty_like(x).exp(),
    ],
)
def test_what_draws_differs_or_is_a_view_is_no_repetition(looked, work):
    assert looked(work, batch).repeated == ()


def rolled_out(x, y):
    with torch.inference_mode():
        state = x.exp()
        for _ in range(5):
            state[:] = state.tanh()


def test_what_is_written_to_in_inference_mode_is_another_each_time(looked):
    assert looked(rolled_out, batch).repeated == ()


def write_item(own, turn):
    own[turn] = 0


@pytest.mark.parametrize(
    ("make", "write"),
    [
        (torch.Tensor.exp, write_item),
        (torch.Tensor.exp, lambda own, turn: own.mul_(turn)),
        (torch.Tensor.exp, lambda own, turn: own[0].mul_(turn)),
        (torch.Tensor.clone, lambda own, turn: own.numpy().fill(turn)),
        (torch.zeros_like, lambda own, turn: own.numpy().fill(turn)),
    ],
)
def test_a_tensor_of_its_own_for_each_turn_to_write_to_is_needed_each_time(looked, make, write):
    def work(x, y):
        for turn in range(4):
            write(make(x), turn)

    assert looked(work, batch).repeated == ()


def test_a_weight_that_an_optimizer_stepped_in_between_is_another(looked):
    layer = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(layer.parameters(), fused=True)

    def steps(x, y):
        layer(x).sum().backward()
        optimizer.step()
        return layer(x)

    assert looked(steps, batch, layer).repeated == ()


def test_with_and_without_gradients_are_two_things(looked):
    def both(x, y):
        with torch.no_grad():
            aside = y.exp()
        return aside + y.exp()

    assert looked(both, batch).repeated == ()
