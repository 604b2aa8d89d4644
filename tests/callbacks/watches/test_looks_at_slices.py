import pytest
import torch
from look_models import Model

from lightning_gpuprof.probes.looks.taken_apart import Slices, taken_apart


class Looped(Model):
    """Twelve words of each of four samples, 16 numbers each."""

    def training_step(self, batch, batch_idx):
        x, words = batch
        h = self.table[words] * 2
        return self.layer(x).mean() + sum(self.parts(h)).mean()

    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(9, 16))

    def parts(self, h):
        return [h[:, i].square() for i in range(h.shape[1])]


def test_slices_of_one_tensor_are_noted_with_what_they_cost(look):
    (found,) = look(Looped()).apart
    assert (found.slices, found.tensors, found.numbers) == (12, 1, 4 * 12 * 16)
    assert (found.dim, found.single) == (1, True)
    assert found.with_ns > 0
    assert found.without_ns > 0
    assert [at.source for at in found.places] == [
        "return [h[:, i].square() for i in range(h.shape[1])]"
    ]


def _halves(h):
    return [h[..., i : i + 4].sum(-1) for i in range(0, 16, 4)]


def _rows(h):
    return [row for one in (h, h + 1) for row in [one.select(0, i) for i in range(4)]]


def _narrow(h):
    return [h.narrow(-2, i, 2).sum(1) for i in range(0, 12, 3)]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        (_halves, (4, 1, 2, False)),
        (_rows, (8, 2, 0, True)),
        (_narrow, (4, 1, 1, False)),
    ],
)
def test_so_are_wider_ones_and_those_of_several_tensors(look, parts, said):
    class Other(Looped):
        def parts(self, h):
            return parts(h)

    (found,) = look(Other()).apart
    assert (found.slices, found.tensors, found.dim, found.single) == said


@pytest.mark.parametrize(
    "parts",
    [
        lambda h: list(h.unbind(1)),
        lambda h: [h.detach()[:, i] for i in range(12)],
        lambda h: [h[:, 0], h[:, 1], h[:, -1]],
        lambda h: [h[:, i : i + 4].sum(1) for i in range(8)],  # windows that overlap
        lambda h: [h[:, 3] for _ in range(12)],
        lambda h: [h[i % 4, i] for i in range(12)],
        lambda h: [h[:, torch.tensor(i)] for i in range(12)],
        lambda h: [h[:, i::4].sum(1) for i in range(4)],
        lambda h: [h[:, None, i : i + 1].sum((1, 2)) for i in range(12)],
    ],
)
def test_what_one_unbind_would_not_give_is_not(look, parts):
    class Other(Looped):
        def parts(self, h):
            return parts(h)

    assert look(Other()).apart == ()


@pytest.mark.parametrize(
    "odd",
    [
        lambda h: h[:, :, :, None],  # more in the index than dimensions
        lambda h: h.sum((1, 2))[:, None],
        lambda h: torch.stack(tensors=[h, h]),  # all by name
        lambda h: torch.square(input=h),
        lambda h: torch.cat([h, h[:0].narrow(0, 0, 0)]),  # of a dimension of 0
        lambda h: h[:0].narrow(1, -2, 2),
        lambda h: h.select(dim=1, index=0),
        lambda h: h[True],
    ],
)
def test_odd_ways_to_call_are_no_failure(look, odd):
    class Other(Looped):
        def parts(self, h):
            return [odd(h).sum()]

    assert look(Other()).apart == ()


def test_of_a_device_nothing_is_tried():
    place = ("train.py", 3, "forward")
    batch = Slices()
    whole = torch.empty(4, 6, device="meta", requires_grad=True)
    for i in range(6):
        batch.seen("__getitem__", (whole, (slice(None), i)), [whole[:, i]], place)
    (found,) = taken_apart([batch, batch], clock=lambda: 0)
    assert (found.slices, found.with_ns, found.without_ns) == (6, None, None)


def test_of_many_slices_some_are_tried_for_all():
    place = ("train.py", 3, "forward")
    batch = Slices()
    whole = torch.empty(2, 640, requires_grad=True)
    for i in range(640):
        batch.seen("__getitem__", (whole, (slice(None), i)), [whole[:, i]], place)
    ticks = iter(range(100))
    (found,) = taken_apart([batch], clock=lambda: next(ticks))
    # One tick for 64 slices, and for all of them at once.
    assert (found.with_ns, found.without_ns) == (10, 1)


def test_what_would_take_much_memory_is_not_tried():
    place = ("train.py", 3, "forward")
    batch = Slices()
    whole = torch.empty(1, requires_grad=True).expand(4, 1 << 26)
    for i in range(4):
        batch.seen("select", (whole, 0, i), [whole[i]], place)
    (found,) = taken_apart([batch], clock=lambda: 0)
    assert (found.slices, found.with_ns) == (4, None)
