"""What is written out for each pair of rows, as the look at functions sees it."""

import pytest
import torch
from torch.nn import functional as F

POINTS, AXES = 64, 8


@pytest.fixture
def look(looked):
    def look(work, *, trained=False):
        def make():
            a = torch.rand(4, POINTS, AXES, requires_grad=trained)
            return a, torch.rand(4, POINTS, AXES)

        return looked(work, make).broadcast

    return look


def squares(a, b):
    return (a.unsqueeze(2) - b.unsqueeze(1)).pow(2).sum(-1)


def test_a_difference_of_all_pairs_is_followed_to_its_sum(look):
    (found,) = look(squares, trained=True)
    assert (found.kind, found.summed, found.calls, found.trained) == ("squares", AXES, 1, True)
    assert found.taken_ns == 3_000
    assert found.wide_bytes == 4 * POINTS * POINTS * AXES * 4
    assert found.given_bytes == 2 * 4 * POINTS * AXES * 4
    assert ".pow(2).sum(-1)" in found.places[0].source


def asked_for_its_shape(a, b):
    apart = a[:, :, None] - b[:, None]
    return apart.pow(2).sum(-1) / apart.shape[-1]


@pytest.mark.parametrize(
    ("work", "kind"),
    [
        (lambda a, b: ((a[:, :, None] - b[:, None]) ** 2).mean(dim=3), "squares"),
        (lambda a, b: ((a[:, :, None] - b[:, None]) / 0.1).square().sum(dim=(-1,)), "squares"),
        (lambda a, b: (a[:, :, None] - b[:, None]).norm(dim=-1), "distance"),
        (lambda a, b: torch.norm(a[:, :, None] - b[:, None], 2, -1), "distance"),
        (lambda a, b: torch.linalg.vector_norm(a[:, :, None] - b[:, None], dim=3), "distance"),
        (lambda a, b: F.pairwise_distance(a[:, :, None], b[:, None]), "distance"),
        (lambda a, b: F.pairwise_distance(a[:, :, None], b[:, None], 2.0), "distance"),
        (asked_for_its_shape, "squares"),
        (lambda a, b: (a[:, :, None] - b[:, None]).abs().sum(-1), "absolute"),
        (lambda a, b: (a[:, :, None] * b[:, None]).sum(-1), "product"),
        (lambda a, b: (a.mT[..., None] * b[:, None]).sum(2), "product"),
        (lambda a, b: F.cosine_similarity(a[:, :, None], b[:, None], dim=-1), "cosine"),
        (lambda a, b: F.cosine_similarity(a[:, :, None], b[:, None], 3), "cosine"),
    ],
)
def test_forms_that_products_of_matrices_stand_for(look, work, kind):
    assert [one.kind for one in look(work)] == [kind]


def written(a, b):
    apart, held = a[:, :, None] - b[:, None], torch.empty(4, POINTS, POINTS, AXES)
    held[:] = apart
    return apart.pow(2).sum(-1)


def changed(a, b):
    apart = a[:, :, None] - b[:, None]
    apart[..., 0] = 0
    return apart.pow(2).sum(-1)


def turned(a, b):
    apart = a[:, :, None] - b[:, None]
    return apart.mT, apart.pow(2).sum(-1)


def used_twice(a, b):
    apart = a[:, :, None] - b[:, None]
    return apart / apart.norm(dim=-1, keepdim=True)


def joined(a, b):
    apart, other = a[:, :, None] - b[:, None], a[:, :, None] - b[:, None]
    return apart * other, other.pow(2).sum(-1)


@pytest.mark.parametrize(
    "work",
    [
        used_twice,
        joined,
        written,
        changed,
        turned,
        lambda a, b: (a[:, :, None] + b[:, None]).tanh().sum(-1),
        lambda a, b: (a[:, :, None] - b[:, None]).relu().sum(-1),
        lambda a, b: (a[:, :, None] - b[:, None]).pow(3).sum(-1),
        lambda a, b: (a[:, :, None] - b[:, None]).pow(torch.tensor(2.0)).sum(-1),
        lambda a, b: torch.pow(torch.tensor(2.0), a[:, :, None] - b[:, None]).sum(-1),
        lambda a, b: (a[:, :, None] - b[:, None]).norm(p=3, dim=-1),
        lambda a, b: (a[:, :, None] - b[:, None]).sum(-1),
        lambda a, b: (a[:, :, None] - b[:, None]).pow(2).sum(1),
        lambda a, b: (a[:, :, None] - b[:, None]).pow(2).amin(-1),
        lambda a, b: (a[:, :, None] * b[:, None]).sum(),
        lambda a, b: torch.sub(a[:, :, None], b[:, None], alpha=2).pow(2).sum(-1),
        lambda a, b: (a - b).pow(2).sum(-1),
        lambda a, b: (a[:1, :2, None] - b[:1, None]).pow(2).sum(-1),
        lambda a, b: a[:, :, 0, None] * b[:, None, :, 0],
        lambda a, b: F.pairwise_distance(a[:, :, None], b[:, None], 1.0),
        lambda a, b: F.pairwise_distance(a[:, :, None], b[:, None], 2.0, 1e-6, True),
        lambda a, b: F.cosine_similarity(a[:, :, None], b[:, None]),  # along dimension 1
        lambda a, b: F.cosine_similarity(a[:, :, None], b[:, None], 0),
        torch.cdist,
    ],
)
def test_what_is_needed_otherwise_or_no_such_sum_or_small_is_left_alone(look, work):
    assert look(work) == ()
