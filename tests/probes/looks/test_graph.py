import pytest
import torch
from torch import nn

from lightning_gpuprof.probes.looks.graph import first_result, graph_is_kept


def test_a_freed_graph_is_told_from_a_kept_one():
    weight = torch.ones(4, requires_grad=True)
    loss = (weight * weight).exp().sum()
    assert graph_is_kept(loss.grad_fn)
    loss.backward(retain_graph=True)
    assert graph_is_kept(loss.grad_fn)
    loss.backward()
    assert graph_is_kept(loss.grad_fn) is False


def test_a_graph_that_saves_nothing_tells_nothing():
    weight = torch.ones(4, requires_grad=True)
    loss = (weight + 1).sum()
    loss.backward()
    assert graph_is_kept(loss.grad_fn) is None


def test_an_optional_tensor_that_was_not_given_tells_nothing_of_a_freed_graph():
    weight = torch.ones(4, requires_grad=True)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(weight, torch.ones(4))
    node = loss.grad_fn
    assert node._saved_pos_weight is None
    assert graph_is_kept(node)
    loss.backward()
    assert graph_is_kept(node) is False


class Squares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, None)
        return x.square().sum()

    @staticmethod
    def backward(ctx, gradient):
        x, _ = ctx.saved_tensors
        return 2 * x * gradient


def test_a_function_of_the_programs_own_tells_as_well():
    loss = Squares.apply(torch.ones(4, requires_grad=True))
    assert graph_is_kept(loss.grad_fn)
    loss.backward(retain_graph=True)
    assert graph_is_kept(loss.grad_fn)
    loss.backward()
    assert graph_is_kept(loss.grad_fn) is False


def test_what_a_checkpoint_would_compute_again_is_not_for_a_look():
    calls = []
    loss = torch.utils.checkpoint.checkpoint(
        lambda x: calls.append(x) or x.exp(), torch.ones(4, requires_grad=True), use_reentrant=False
    ).sum()
    node = loss.grad_fn
    loss.backward(retain_graph=True)
    assert graph_is_kept(node)
    assert len(calls) == 2
    loss.backward()
    assert graph_is_kept(node) is False
    assert len(calls) == 3


class Older:
    """A node of a torch that does not tell of hooks."""

    _raw_saved_x = object()
    next_functions = ()

    @property
    def _saved_x(self):
        raise AssertionError("a hook may be called")


def test_where_torch_tells_of_no_hooks_nothing_is_asked():
    assert graph_is_kept(Older()) is None


def test_looking_leaves_the_gradients_alone():
    weight = torch.ones(4, requires_grad=True)
    loss = weight.exp().sum()
    node = loss.grad_fn
    loss.backward()
    graph_is_kept(node)
    assert torch.equal(weight.grad, torch.ones(4).exp())


class Bank(nn.Module):
    """An encoder whose results are compared with as many rows kept from earlier steps."""

    def __init__(self):
        super().__init__()
        self.letters, self.rows = nn.Embedding(9, 4), nn.Linear(4, 4)
        self.first = nn.Parameter(torch.ones(1, 4))

    def forward(self, letters, kept):
        embedded = self.letters(letters)
        joined = torch.cat([self.first.expand(len(letters), 1, 4), embedded], dim=1)
        return (joined + self.rows(joined)).flatten(0, 1) @ kept.T


@pytest.mark.parametrize(
    ("samples", "length", "kept", "numbers"),
    [(2, 5, 3, 40), (2, 10, 3, 80), (4, 5, 3, 80), (2, 5, 300, 40)],
)
def test_the_first_result_grows_with_what_a_model_is_given_and_not_with_what_it_keeps(
    samples, length, kept, numbers
):
    loss = Bank()(torch.zeros(samples, length, dtype=torch.int64), torch.ones(kept, 4)).sum()
    assert first_result(loss.grad_fn) == numbers
    loss.backward()


def test_the_first_result_of_a_users_own_function_and_of_a_long_graph_is_known():
    weight = torch.ones(3, 4, requires_grad=True)
    loss = torch.utils.checkpoint.checkpoint(
        torch.exp, torch.ones(5, 3) @ weight, use_reentrant=True
    ).sum()
    assert first_result(loss.grad_fn) == 20
    for _ in range(1_000):
        loss = loss + 1
    assert first_result(loss.grad_fn) == 1


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(4, 3),
        nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)),
        nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.Linear(3, 9)),
        nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 4), nn.Flatten()),
    ],
)
@pytest.mark.parametrize("cast", [False, True])
def test_the_first_result_is_none_of_the_weights(layer, cast):
    for samples in (1, 7):
        with torch.autocast("cpu", enabled=cast):
            loss = layer(torch.ones(samples, 4)).square().mean()
        assert first_result(loss.grad_fn) == 3 * samples


class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4, 3))
        self.down, self.up = nn.Parameter(torch.ones(4, 1)), nn.Parameter(torch.ones(1, 3))

    def forward(self, x):
        return x @ (self.weight + 2 * (self.down @ self.up))


def test_a_weight_that_is_made_of_others_is_none_of_what_a_model_is_given():
    for samples in (2, 7):
        loss = nn.Sequential(Adapted(), nn.ReLU(), nn.Linear(3, 9))(torch.ones(samples, 4)).sum()
        assert first_result(loss.grad_fn) == 3 * samples
