import torch

from lightning_gpuprof.probes.looks.graph import graph_is_kept


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


def test_looking_leaves_the_gradients_alone():
    weight = torch.ones(4, requires_grad=True)
    loss = weight.exp().sum()
    node = loss.grad_fn
    loss.backward()
    graph_is_kept(node)
    assert torch.equal(weight.grad, torch.ones(4).exp())
