from math import dist

import pytest
import torch

from lightning_gpuprof.recorders.scalars import sketch as sketches
from lightning_gpuprof.recorders.scalars.sketch import COLUMNS, sketch


def apart(one, other):
    return dist(sketch(one).tolist()[1:], sketch(other).tolist()[1:])


@pytest.mark.parametrize("far", [1e-4, 0.01, 0.5])
def test_the_distance_of_two_tensors_is_told_to_about_a_quarter(far):
    random = torch.Generator().manual_seed(1)
    one = torch.randn(32, 1000, generator=random, dtype=torch.float64)
    told = []
    for _ in range(50):
        change = torch.randn(one.shape, generator=random, dtype=torch.float64)
        change *= far * one.norm() / change.norm()
        told.append(apart(one, one + change) / float(far * one.norm()))
    told = torch.tensor(told)
    assert float(told.square().mean()) == pytest.approx(1, abs=0.15)
    assert 0.15 < float(told.std()) < 0.35


def test_what_a_mean_would_not_show_is_seen():
    one = torch.randn(64, 10, generator=torch.Generator().manual_seed(2))
    for other in (one.flip(0), one.roll(1, 1), -one):
        assert apart(one, other) > 0.3 * float((one - other).norm())


def test_signs_are_as_many_of_each_kind_and_neighbours_have_their_own():
    signs = sketches._make_signs(0, 100_000, torch.device("cpu")).float()
    assert set(signs.tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 0.02
    for apart_by in (1, 2, sketches.SUMS, 100):
        assert abs(float((signs[apart_by:] * signs[:-apart_by]).mean())) < 0.02


def test_the_sign_of_a_place_does_not_depend_on_how_many_there_are(monkeypatch):
    monkeypatch.setattr(sketches, "_SIGNS", {})
    monkeypatch.setattr(sketches, "_MOST_AT_ONCE", 7)
    small = sketch(torch.ones(10))
    large = sketch(torch.ones(100))
    assert torch.equal(sketch(torch.ones(10)), small)
    assert not torch.equal(large, small)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(0),
        torch.ones(()),
        torch.ones(3, dtype=torch.bfloat16),
        torch.arange(5),
        torch.ones(4, dtype=torch.bool),
        torch.ones(2, 3, dtype=torch.complex64),
        torch.ones(3, 4).T,
        torch.ones(3, requires_grad=True) * 2,
    ],
)
def test_any_tensor_has_one(tensor):
    found = sketch(tensor)
    assert found.shape == (COLUMNS,)
    assert not found.requires_grad
    norm = float(tensor.detach().to(torch.complex128).norm())
    assert float(found[0]) == pytest.approx(norm, rel=1e-6)


def test_a_conjugate_is_sketched_as_the_numbers_that_it_has():
    random = torch.Generator().manual_seed(3)
    one = torch.randn(100, generator=random, dtype=torch.complex64)
    assert torch.equal(sketch(one.conj()), sketch(one.conj().resolve_conj()))
