"""A backend that is switched off is noted, and tried when training has ended; the switch stays."""

from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from look_models import Clock
from torch import nn

from lightning_gpuprof.callbacks.watches import backend_watch
from lightning_gpuprof.callbacks.watches.backend_watch import BackendWatch
from lightning_gpuprof.probes.looks import backend_trial
from lightning_gpuprof.probes.looks.backend_trial import called, try_both
from lightning_gpuprof.records.backend import BACKEND_NOTE, backend_off
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note

PLACE = CallPlace("train.py", 7, "", "torch.backends.mkldnn.enabled = False")


class Convolves(BoringModel):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 2, 3))

    def training_step(self, batch, batch_idx):
        return self.layers(batch[:, None]).mean() + self.layer(batch).mean()


class Backend:
    """A switch, and layers that take 3 without it and 1 with it."""

    def __init__(self, *, enabled=False, available=True):
        self.enabled, self.is_available = enabled, lambda: available
        self.now_ns = 0

    def clock(self):
        return self.now_ns

    def computed(self):
        self.now_ns += 1_000 if self.enabled else 3_000


@pytest.fixture(autouse=True)
def found_at(monkeypatch):
    monkeypatch.setattr(backend_watch, "own_line_like", lambda pattern: PLACE)


@pytest.fixture
def timed(monkeypatch):
    """A switched-off backend; layers that are tried take what it says."""
    backend = Backend()
    monkeypatch.setattr(backend_trial, "_runner", lambda layer: backend.computed)
    return backend


@pytest.fixture
def noted(session_of):
    def ran(backend, model=None):
        watch = BackendWatch(
            clock=getattr(backend, "clock", Clock()), backends=SimpleNamespace(mkldnn=backend)
        )
        session = session_of(model or Convolves(), watch, limit_train_batches=4)
        notes = [note for note in session.all(Note) if note.name == BACKEND_NOTE]
        return notes, backend_off(notes)

    return ran


def test_each_convolution_of_a_step_is_tried_both_ways(noted, timed):
    notes, found = noted(timed)
    assert (found.backend, found.place, found.calls) == ("mkldnn", PLACE, 2)
    assert (found.as_set_ns, found.enabled_ns) == (6_000, 2_000)
    assert len(notes) == 2  # the first, for runs that end early
    assert timed.enabled is False


def test_a_backend_that_is_on_or_not_built_is_left_alone(noted):
    assert noted(Backend(enabled=True)) == ([], None)
    assert noted(Backend(available=False)) == ([], None)


def test_a_model_without_such_layers_has_nothing_to_try(noted, timed):
    _, found = noted(timed, BoringModel())
    assert (found.calls, found.as_set_ns) == (0, 0)


def test_a_trial_draws_no_random_number_and_puts_the_switch_back_where_it_fails():
    backend = Backend()
    layer = called(nn.Conv1d(2, 3, 3), (torch.zeros(1, 2, 8),), torch.zeros(1, 3, 6))
    before = torch.random.get_rng_state()
    try_both(Counter({layer: 1}), backend, backend.clock)
    assert torch.equal(torch.random.get_rng_state(), before)
    odd = layer._replace(shape=(1, 5, 8))
    with pytest.raises(RuntimeError):
        try_both(Counter({odd: 1}), backend, backend.clock)
    assert backend.enabled is False


def test_a_trial_ends_in_time_with_the_largest_layers(timed):
    small = called(nn.Conv1d(2, 3, 3), (torch.zeros(1, 2, 8),), torch.zeros(1, 3, 6))
    large = small._replace(shape=(1, 2, 800))
    tried = try_both(Counter({small: 3, large: 1}), timed, timed.clock, most_ns=5_000)
    assert tried == (1, 3_000, 1_000)


@pytest.mark.parametrize(
    ("module", "shape"),
    [
        (nn.Conv1d(4, 6, 3, padding="same", dilation=2), (2, 4, 9)),
        (nn.Conv2d(4, 8, (3, 5), stride=2, padding=1, groups=2, bias=False), (2, 4, 9, 9)),
        (nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
        (nn.ConvTranspose2d(4, 6, 4, 2, 1, groups=2), (2, 4, 5, 5)),
        (nn.Linear(8, 4).to(torch.bfloat16), (2, 3, 8)),
    ],
)
def test_any_such_layer_can_be_tried_by_what_is_noted_of_it(module, shape):
    given = torch.randn(shape, dtype=module.weight.dtype, requires_grad=True)
    layer = called(module, (given,), module(given))
    backend_trial._runner(layer)()


def test_products_in_full_precision_are_no_backends_to_try():
    layer = nn.Linear(8, 4)
    assert called(layer, (torch.zeros(2, 8),), layer(torch.zeros(2, 8))) is None
    assert called(nn.ReLU(), (torch.zeros(2),), torch.zeros(2)) is None
