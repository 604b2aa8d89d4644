"""A trial of what takes long is tried once in each form: training waits for it."""

import pytest
import torch

from lightning_gpuprof.probes.looks import attention_trial, sparse_products, written_activations

_LONG_NS = 1_000_000_000


@pytest.fixture
def passes(monkeypatch):
    """Passes that take a second each, and what they were given."""
    made = []

    def made_one(*given):
        made.append(given)
        return _LONG_NS

    for module in (attention_trial, sparse_products):
        monkeypatch.setattr(module, "_pass", made_one)
    return made


def test_long_attention_is_tried_once_with_weights_and_once_without(passes):
    assert attention_trial._try({}, lambda: 0) == (_LONG_NS, _LONG_NS)
    assert [need for _, need, _ in passes] == [True, False]


def test_a_long_product_is_tried_once_in_each_layout(passes):
    size = sparse_products.Size(4, 4, 2, 3, torch.float32, trained=False)
    assert set(sparse_products._try(size, lambda: 0).values()) == {_LONG_NS}
    assert len(passes) == 3


def test_a_long_activation_is_tried_once_in_each_form():
    ticks = iter(range(0, 100 * _LONG_NS, _LONG_NS))
    times = written_activations._try("silu(x)", (3,), torch.float32, True, lambda: next(ticks))
    assert times == (_LONG_NS, _LONG_NS)
    assert next(ticks) == 4 * _LONG_NS
