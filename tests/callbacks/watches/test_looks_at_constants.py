import weakref

import pytest
import torch
from look_models import Grid, Model
from torch.nn import functional as F

from lightning_gpuprof.probes.looks import function_calls


def test_what_is_the_same_in_every_step_is_noted_with_its_line(look):
    (found,) = look(Grid()).constants
    assert (found.taken_ns, found.calls, found.alone) == (30, 3, True)
    assert found.places[0].function == "grid"
    assert found.places[0].source == "return torch.linspace(0, 1, 32).square().cos()"


class GridInside(Grid):
    def inside(self, x):
        grid = torch.linspace(0, 1, 32).square().cos()
        return self.layer(x + grid)


class GridFromLists(Grid):
    """What is given in Python may be the batch's."""

    def grid(self, rows=(1.0,)):
        return torch.tensor([row * 2.0 for row in rows]).square().mean()

    def inside(self, x):
        return self.layer(x + self.grid([1.0, 2.0]))


class GridByValues(Grid):
    def inside(self, x):
        return self.layer(x + self.counted(x))

    def counted(self, x):
        above = [row > 100 for row in x.tolist()[0]]
        return torch.tensor(above).float()


class GridFromMany(Grid):
    def grid(self, *rows):
        return torch.tensor([row * 2.0 for row in rows]).square().mean()

    def inside(self, x):
        return self.layer(x + self.grid(1.0, 2.0))


class Sampled(Grid):
    """What it draws in Python is another constant in each step."""

    times = 0

    def grid(self):
        self.times += 1
        rows = torch.tensor([float(self.times)] * 32)
        along = torch.arange(32) / 32
        return rows + along


@pytest.mark.parametrize("model", [GridInside, GridFromLists, GridByValues, GridFromMany, Sampled])
def test_a_function_that_may_compute_on_data_too_is_not_there_for_the_constant_alone(look, model):
    (found,) = look(model()).constants
    assert not found.alone


class GridBySize(Grid):
    def grid(self, x, width=32):
        return torch.tensor([[float(i + j) for i in range(width)] for j in range(x.shape[0])])

    def inside(self, x):
        return self.layer(x + self.grid(x))


def test_a_function_that_goes_by_sizes_is_there_for_the_constant_alone(look):
    (found,) = look(GridBySize()).constants
    assert found.alone


class Rebinds(Grid):
    """Drops what it holds while it runs."""

    gone = True

    def inside(self, x):
        y, held = self.layer(x), torch.nn.ReLU()
        dropped = weakref.ref(held)
        y = y + torch.arange(2).float().cos()
        held = None
        self.gone = self.gone and dropped() is None
        return y


def test_nothing_that_a_step_drops_is_kept_until_its_function_returns(look):
    model = Rebinds()
    look(model)
    assert model.gone


class Drawn(Grid):
    def grid(self):
        return torch.rand(32).square().cos()


class Scheduled(Grid):
    def grid(self):
        return torch.linspace(0, 1 + self.global_step, 32)


class Filled(Grid):
    def inside(self, x):
        out = torch.zeros(4, 32)
        out[:, :16] = x[:, :16]
        return self.layer(out.cos())


@pytest.mark.parametrize("model", [Drawn, Scheduled, Filled])
def test_what_changes_from_step_to_step_is_no_constant(look, model):
    assert look(model()).constants == ()


class Counting(Grid):
    """Counts its batches in place, as BatchNorm does; with no sums to compare, as on a GPU."""

    def __init__(self):
        super().__init__()
        self.register_buffer("batches", torch.zeros(()))
        self.register_buffer("places", torch.linspace(0, 1, 32))

    def grid(self):
        self.batches.add_(1)
        return (self.places.square() / self.batches).cos()


def test_what_a_batch_changes_in_place_is_no_constant_where_no_values_are_compared(
    look, monkeypatch
):
    monkeypatch.setattr(function_calls, "digest_of", lambda results: None)
    (found,) = look(Counting()).constants
    assert (found.taken_ns, found.calls) == (10, 1)
    assert found.places[0].source == "return (self.places.square() / self.batches).cos()"


def test_a_count_of_batches_is_no_work_on_the_batch(look):
    found = look(Counting()).on_data
    assert "grid" not in [place.function for one in found for place in one.places]


class Penalised(Model):
    def penalty(self):
        total = torch.zeros(())
        for parameter in self.parameters():
            total = total + parameter.pow(2).sum()
        return total

    def training_step(self, batch, batch_idx):
        return super().training_step(batch, batch_idx) + 0.1 * self.penalty()


def test_squares_of_weights_that_join_the_loss_are_a_penalty(look):
    found = look(Penalised()).penalty
    assert found.numbers == 66
    assert [place.function for place in found.places] == ["penalty"]


class Watched(Penalised):
    def training_step(self, batch, batch_idx):
        with torch.no_grad():
            self.penalty()
        return Model.training_step(self, batch, batch_idx)


class Divergence(Penalised):
    def penalty(self):
        weight = self.layer.weight
        return (weight.pow(2) - weight.abs().log()).sum()


@pytest.mark.parametrize("model", [Watched, Divergence])
def test_what_is_only_looked_at_or_has_other_terms_is_no_penalty(look, model):
    assert look(model()).penalty is None


class Adapted(Model):
    frozen = True

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(32, 32).requires_grad_(not self.frozen)
        self.a = torch.nn.Parameter(torch.randn(2, 32))
        self.b = torch.nn.Parameter(torch.zeros(32, 2))

    def inside(self, x):
        weight = self.base.weight + 2.0 * (self.b @ self.a)
        return self.layer(F.linear(x, weight))


class AllTrained(Adapted):
    frozen = False


def test_a_weight_made_of_thin_factors_is_noted(look):
    found = look(Adapted()).built
    assert (found.layers, found.product_ns, found.around_ns, found.layer_ns) == (1, 10, 20, 10)
    assert found.thin_frac == 128 / 1024
    assert found.places[0].source == "weight = self.base.weight + 2.0 * (self.b @ self.a)"


def test_where_the_whole_weight_is_trained_its_gradient_is_needed(look):
    assert look(AllTrained()).built is None


class Scaled(Model):
    times = 3

    def inside(self, x):
        for _ in range(self.times):
            weight = self.layer.weight.tanh() / 2
            x = x + F.linear(x, weight)[:, :1]
        return self.layer(x)


class ScaledOnce(Scaled):
    times = 1


def test_the_same_weights_computed_with_again_and_again_are_noted(look):
    found = look(Scaled()).rebuilt
    # A tangent and a division, twice more than needed.
    assert (found.times, found.again_ns) == (3, 40)
    assert found.places[0].source == "weight = self.layer.weight.tanh() / 2"
    assert look(ScaledOnce()).rebuilt is None


class Frozen(Model):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(9, 32).requires_grad_(False)

    def inside(self, x):
        return self.layer(x + self.words(torch.arange(4)).relu())


def test_what_comes_from_frozen_weights_alone_is_a_constant(look):
    (found,) = look(Frozen()).constants
    assert found.calls == 3
    assert found.places[0].function == "inside"
