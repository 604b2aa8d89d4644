"""Comparisons of all pairs, as the look at functions sees them."""

import pytest
import torch


def values():
    return torch.randint(999, (64, 3)), torch.randint(999, (900,))


def test_a_comparison_with_all_facts_is_followed_to_its_any(looked):
    def known(x, facts):
        return x[..., None].eq(facts).any(dim=-1)

    (found,) = looked(known, values).compared
    assert (found.kind, found.orders, found.calls, found.among) == ("any", False, 1, 900)
    assert (found.compared, found.taken_ns) == (64 * 3 * 900, 2_000)
    assert ".eq(facts).any" in found.places[0].source


@pytest.mark.parametrize(
    ("work", "kind", "orders"),
    [
        (lambda x, facts: (x[:, :1] == facts).any(1), "any", False),
        (lambda x, facts: (x[:, :1] != facts).all(1), "any", False),
        (lambda x, facts: (~(x[:, :1] == facts)).all(dim=-1), "any", False),
        (lambda x, facts: (x[:, :1] == facts).int().argmax(dim=1), "which", False),
        (lambda x, facts: (x[:, :1] == facts).nonzero(), "which", False),
        (lambda x, facts: (x[:, :1] == facts).sum(1), "count", False),
        (lambda x, facts: (x[:, :1] > facts).long().sum(-1), "count", True),
        (lambda x, facts: torch.ge(x[:, :1], facts).sum(-1), "count", True),
    ],
)
def test_what_is_made_of_the_comparisons(looked, work, kind, orders):
    assert [(one.kind, one.orders) for one in looked(work, values).compared] == [(kind, orders)]


def joined(x, facts):
    first, second = x[:, :1] == facts, x[:, 1:2] == facts
    return first & second, first.any(1), second.any(1)


def masks(x, facts):
    same = x[:, :1] == facts
    return same.any(1), facts * same


@pytest.mark.parametrize(
    "work",
    [
        masks,
        joined,
        lambda x, facts: (x[:, :1] == facts) * 2.0,
        lambda x, facts: (x[:, :1] == facts).any(),
        lambda x, facts: facts[(x[:1, :1] == facts)[0]],
        lambda x, facts: (x == 3).any(1),
        lambda x, facts: (x[:4, :1] == facts).any(1),  # few
        lambda x, facts: (x == x.flip(0)).any(1),
        lambda x, facts: (x.repeat(1, 10)[..., None] == facts[:896].view(64, 1, 14)).any(-1),
        lambda x, facts: (x[:, :1] > facts).any(1),
        lambda x, facts: (x[:, :1] < facts).int().argmax(1),
    ],
)
def test_a_mask_that_is_needed_is_no_lookup(looked, work):
    assert looked(work, values).compared == ()


def test_labels_of_one_batch_that_mask_pairs_are_needed(looked):
    def loss(x, labels):
        same = labels[:, None] == labels[None]
        return (torch.cdist(x.float(), x.float())[:900] * same).sum()

    def make():
        return torch.rand(900, 4), torch.randint(9, (900,))

    assert looked(loss, make).compared == ()
