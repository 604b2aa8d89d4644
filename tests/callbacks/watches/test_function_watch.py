import copy
import sys

import pytest
import torch
from lightning.pytorch import Callback
from look_models import Attending, Clock, Grid, Model
from torch.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    _get_current_function_mode_stack,
)
from torch.utils.checkpoint import checkpoint

from lightning_gpuprof.callbacks.watches import function_watch
from lightning_gpuprof.probes.looks.function_calls import FunctionCalls
from lightning_gpuprof.probes.looks.function_mode import Watching


def test_the_function_that_calls_most_functions_is_noted_with_the_line_that_calls_most(look):
    class Decays(Model):
        def inside(self, x):
            drive = self.layer(x)
            return self.decayed(drive)

        def decayed(self, drive):
            state = drive[:, 0]
            for _ in range(40):
                state = 0.98 * state + 0.1
            return state.sum()

    first, *_ = look(Decays()).busy

    assert (first.place.function, first.place.source) == ("decayed", "state = 0.98 * state + 0.1")
    assert 80 <= first.calls <= 82
    assert (first.loop_calls, first.goes_on) == (80, False)
    assert 0.9 < first.calls_frac < 1


class Turns(Model):
    def inside(self, x):
        total = self.layer(x).sum()
        for row in range(4):
            total = self.turn(total + x[row].sum())
        return total.exp().log().exp().log().sqrt()

    def turn(self, total):
        total = total * 0.5
        return total.tanh().sin()


def test_the_loop_around_the_line_that_calls_most_is_noted_also_where_it_calls_a_function(look):
    busy = {one.place.function: one for one in look(Turns()).busy}
    # Of `inside` the last line has 5 calls, the one in the loop 4 * 3.
    for name, source in (("inside", "total = self.turn(total + x[row].sum())"), ("turn", None)):
        assert busy[name].loop.source == "for row in range(4):"
        assert busy[name].goes_on
        assert busy[name].place.source == source or source is None


class Written(Model):
    def inside(self, x):
        bank = torch.zeros(32, 32)
        for row in range(32):
            bank[row, row] = 1.0
        return self.layer(torch.stft(x.flatten(), 32, return_complex=True).abs().mean() + x @ bank)


def test_elements_that_a_loop_writes_one_by_one_are_calls_too(look):
    first, *_ = look(Written()).busy
    assert first.place.source == "bank[row, row] = 1.0"
    assert first.loop.source == "for row in range(32):"


def test_lines_that_read_values_are_noted(look):
    class Reads(Model):
        def inside(self, x):
            self.total = 0.0
            for one in x[:, 0]:
                self.total += one.item()
                if one > 100:
                    self.total += float(one)
            return self.layer(x)

    (read,) = look(Reads()).reading

    assert (read.place.source, read.calls) == ("self.total += one.item()", 8)


def test_an_ordinary_model_has_nothing_to_note(look):
    seen = look(Model())
    assert (seen.constants, seen.penalty, seen.built, seen.separate) == ((), None, None, ())
    assert seen.unread is None
    assert seen.lengths == (4,)


class Again(Model):
    def __init__(self):
        super().__init__()
        self.block = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.ReLU())

    def inside(self, x):
        x = checkpoint(self.block, x.requires_grad_(), use_reentrant=self.reentrant)
        return self.layer(x)

    reentrant = False


class AgainReentrant(Again):
    reentrant = True


@pytest.mark.parametrize("model", [Again, AgainReentrant])
def test_what_a_checkpoint_drops_is_noted_with_its_line(look, model):
    found = look(model()).checkpointed
    # A linear layer and an activation, of 4 by 32 numbers of 4 bytes each.
    assert (found.taken_ns, found.calls, found.made_bytes) == (20, 2, 1024)
    assert found.places[0].source.startswith("x = checkpoint(self.block, x.requires_grad_()")


class Unusual(Model):
    def inside(self, x):
        mapped = torch.vmap(lambda row: row + torch.linspace(0, 1, 32))(x)
        own = torch.nested.nested_tensor([x[:2], x[2:]])
        sparse = torch.sparse.mm(torch.eye(4).to_sparse(), x)
        return self.layer(mapped) + self.layer(own).to_padded_tensor(0.0).sum() + sparse.sum()


def test_tensors_without_plain_numbers_do_not_end_the_look(look):
    assert look(Unusual()).penalty is None


def test_training_is_the_same_with_the_look(look):
    weights = []
    for watch in (True, False):
        torch.manual_seed(1)
        model = Attending()
        look(model, watch=watch)
        weights.append([one.detach().clone() for one in model.parameters()])
    for one, other in zip(*weights, strict=True):
        assert torch.equal(one, other)


def test_where_something_was_compiled_there_is_no_look(look, monkeypatch):
    monkeypatch.setattr(function_watch.CompileWatch, "compiled_before", staticmethod(lambda: True))
    assert look(Grid()) is None


def test_a_run_of_two_batches_ends_without_a_note(look):
    assert look(Model(), batches=2) is None


class Beneath(Model):
    """Leaves a mode of its own only behind the backward pass."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        with BaseTorchFunctionMode():
            self.manual_backward(super().training_step(batch, batch_idx))
            assert not any(isinstance(one, Watching) for one in _get_current_function_mode_stack())
        self.optimizers().step()


def test_a_mode_of_the_program_on_top_keeps_none_of_the_look(look):
    assert look(Beneath()) is not None


class Crossing(Model):
    """Leaves a mode that was entered before the look's, amid that."""

    def __init__(self):
        super().__init__()
        self.mode = Told()

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.mode.__exit__(None, None, None)
        assert self.mode not in _get_current_function_mode_stack()
        return loss

    def inside(self, x):
        return super().inside(x.cos().sin().cos().sin())


class Opening(Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        pl_module.mode.__enter__()


def test_a_mode_that_was_there_first_may_be_left_first(look):
    first, *_ = look(Crossing(), callbacks=[Opening()]).busy
    assert first.place.function == "inside"


class Skipping(Model):
    def on_train_batch_start(self, batch, batch_idx):
        return -1 if batch_idx == 1 else None

    def on_train_epoch_end(self):
        assert _get_current_function_mode_stack() == []


def test_a_batch_that_is_skipped_ends_its_look_with_the_epoch(look):
    assert look(Skipping(), max_epochs=4) is not None


class Checking(Model):
    def on_after_backward(self):
        assert _get_current_function_mode_stack() == []


def test_where_the_look_fails_its_mode_is_left_at_the_backward_pass(look, monkeypatch):
    monkeypatch.setattr(FunctionCalls, "seen", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="FunctionWatch failed"):
        assert look(Checking(), failures=1) is None


def test_a_batch_of_very_many_calls_ends_the_look(look, monkeypatch):
    monkeypatch.setattr(function_watch, "MOST_CALLS", 2)
    assert look(Checking()) is None


def test_weights_made_in_inference_mode_are_known():
    with torch.inference_mode():
        layer = torch.nn.Linear(3, 3).requires_grad_(False)
    calls = FunctionCalls(layer)
    watching = Watching(calls.seen, lambda: 0)
    watching.start()
    layer.weight.cos()
    watching.stop()
    (call,) = calls.calls
    assert call.weights == ((id(layer.weight), 0),)


@pytest.mark.parametrize(("trains_on", "counted"), [("cpu", 1), ("meta", 0)])
def test_a_value_of_the_host_is_not_waited_for_where_a_device_trains(trains_on, counted):
    calls = FunctionCalls(torch.nn.Linear(3, 3, device=trains_on))
    for device in ("cpu", "meta"):
        value = torch.empty((), device=device)
        calls.seen(torch.Tensor.item, (value,), {}, 0.0, 1, sys._getframe())
    assert calls.reads.total() == 1 + counted


class Told(TorchFunctionMode):
    """Keeps the names of functions."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_mode_of_the_program_is_not_told_of_what_the_look_reads():
    model, told = Grid(), (Told(), Told())
    watching = Watching(FunctionCalls(model).seen, lambda: 0)
    with told[0]:
        model.inside(torch.ones(4, 32))
    with told[1]:
        watching.start()
        model.inside(torch.ones(4, 32))
        watching.stop()
    assert "linear" in told[0].names
    assert told[1].names == told[0].names


def test_what_is_compiled_amid_the_look_is_one_graph_as_always():
    watching = Watching(lambda *_: None, Clock())
    compiled = torch.compile(lambda x: x.cos() + 1, backend="eager", fullgraph=True)
    x = torch.zeros(3)
    watching.start()
    try:
        result = compiled(x)
    finally:
        watching.stop()
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
    assert result.tolist() == [2.0] * 3


class Copying(Attending):
    def inside(self, x):
        y = super().inside(x)
        copied = copy.deepcopy(self.trainer.callbacks[0])
        assert (copied._mode, copied._batches) == (None, [])
        return y


def test_a_copy_made_amid_the_look_has_none_of_it(look):
    assert look(Copying()).unread.calls == 1
