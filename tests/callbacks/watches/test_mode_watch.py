"""Modes that stay open are noted, whoever opens them and when; those that are needed are not."""

import re

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from lightning_gpuprof.callbacks.watches import mode_watch
from lightning_gpuprof.callbacks.watches.mode_watch import ModeWatch
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.looks import modes
from lightning_gpuprof.probes.looks.modes import made_at
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.records.torch_modes import MODES_NOTE, torch_modes

PLACE = CallPlace("train.py", 7, "", "self.mode = Spy()")


class Checks(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Spy(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


class Holds(Callback):
    """Opens a mode around some steps."""

    def __init__(self, kind, batches):
        self.kind, self.batches, self.mode = kind, batches, None

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx in self.batches:
            self.mode = self.kind()
            self.mode.__enter__()

    def on_train_batch_end(self, *_):
        if self.mode is not None:
            self.mode.__exit__(None, None, None)
            self.mode = None


class InForward(BoringModel):
    def training_step(self, batch, batch_idx):
        with Checks():
            return super().training_step(batch, batch_idx)


class InBackward(BoringModel):
    def backward(self, loss, *args, **kwargs):
        with Checks():
            loss.backward()


@pytest.fixture(autouse=True)
def found_at(monkeypatch):
    monkeypatch.setattr(mode_watch, "made_at", lambda name: PLACE)


@pytest.fixture
def noted(session_of):
    """Return each note of modes of a run of some batches, and what the run ends with."""

    def ran(model, *callbacks, batches=8, every=50):
        watch = ModeWatch(every=every)
        session = session_of(model, watch, *callbacks, limit_train_batches=batches)
        notes = [note for note in session.all(Note) if note.name == MODES_NOTE]
        return notes, torch_modes(notes)

    return ran


def test_a_counter_that_a_later_callback_holds_open_is_noted_once(noted):
    held = Holds(lambda: FlopCounterMode(display=False), range(8))
    notes, (mode,) = noted(BoringModel(), held, every=1)
    assert len(notes) == 1
    assert (mode.name, mode.dispatch, mode.package) == ("FlopCounterMode", True, "torch")
    assert (mode.forward, mode.backward, mode.place) == (True, True, PLACE)


@pytest.mark.parametrize(
    ("model", "passes"), [(InForward, (True, False)), (InBackward, (False, True))]
)
def test_a_mode_around_one_pass_alone_is_noted_with_it(noted, model, passes):
    _, (mode,) = noted(model())
    assert (mode.forward, mode.backward) == passes
    assert (mode.name, mode.package) == ("Checks", "")


def test_a_mode_of_functions_is_told_from_one_of_operators(noted):
    _, (mode,) = noted(BoringModel(), Holds(Spy, range(8)))
    assert (mode.name, mode.dispatch) == ("Spy", False)


@pytest.mark.parametrize("batches", [[0], [0, 1], [1, 5]])
def test_what_single_batches_have_is_no_habit(noted, batches):
    assert noted(BoringModel(), Holds(Checks, batches)) == ([], ())


def test_a_mode_that_is_shut_later_is_taken_back(noted):
    notes, modes_left = noted(BoringModel(), Holds(Checks, range(4)), every=2)
    assert (len(notes), modes_left) == (2, ())


def test_modes_that_torch_needs_itself_are_left_out(noted):
    assert noted(BoringModel(), Holds(lambda: torch.device("cpu"), range(8))) == ([], ())


def test_an_older_torch_without_stacks_to_read_has_no_modes(monkeypatch):
    monkeypatch.delattr(torch.utils._python_dispatch, "_get_current_dispatch_mode_stack")
    monkeypatch.delattr(torch.overrides, "_get_current_function_mode_stack")
    with Checks(), Spy():
        assert modes.open_modes() == frozenset()


@pytest.mark.parametrize(
    ("line", "makes"),
    [
        ("self.mode = Spy()", True),
        ("with spying.Spy(depth=2) as spy:", True),
        ("manager = partial(Spy, depth=2)", True),
        ("class Spy(TorchFunctionMode):", False),
        ("from spying import Spy", False),
        ("self.mode = NoSpy()", False),
    ],
)
def test_the_line_that_makes_a_mode_is_not_that_of_its_class(monkeypatch, line, makes):
    def like(pattern):
        return PLACE if re.search(pattern, line) else None

    monkeypatch.setattr(modes, "own_line_like", like)
    assert made_at("Spy") == (PLACE if makes else None)


def test_a_look_that_would_never_come_is_refused():
    with pytest.raises(ConfigError, match="would never look"):
        ModeWatch(every=0)
