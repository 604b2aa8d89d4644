import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from look_models import Clock
from torch.nn.modules import module as module_hooks
from torch.utils.checkpoint import checkpoint

from lightning_gpuprof.callbacks.watches import call_watch
from lightning_gpuprof.callbacks.watches.call_watch import CallWatch
from lightning_gpuprof.records.module_calls import embedding_use, repeated_forward
from lightning_gpuprof.records.schema import Note


@pytest.fixture
def look(session_of):
    def fitted(model, batches=6, *, tables=False, **options):
        watch = CallWatch(clock=Clock())
        notes = session_of(model, watch, limit_train_batches=batches, **options).all(Note)
        assert not module_hooks._global_forward_hooks
        assert not module_hooks._global_forward_pre_hooks
        return embedding_use(notes) if tables else repeated_forward(notes)

    return fitted


class Two(BoringModel):
    """An encoder with two heads that each run it on what `given` makes of the batch."""

    def __init__(self, *inside, given=lambda batch: (batch, batch)):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(32, 32), *inside)
        self.given = given

    def policy(self, x):
        return self.layer(self.encoder(x))

    def value(self, x):
        return self.encoder(x).sum(1)

    def training_step(self, batch, batch_idx):
        first, second = self.given(batch)
        return self.policy(first).square().mean() + self.value(second).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def test_an_encoder_that_two_heads_each_run_is_noted_with_its_lines(look):
    (found,) = look(Two())
    # 10 ns from its entry to its end; the first layer inside is not named again.
    assert (found.name, found.calls, found.repeat_ns, found.backward_frac) == ("encoder", 2, 10, 1)
    assert [place.function for place in found.places] == ["policy", "value"]
    assert found.places[1].source == "return self.encoder(x).sum(1)"


@pytest.mark.parametrize(
    "given",
    [
        lambda batch: (batch, batch.clone()),
        lambda batch: (batch[:1], batch[1:]),
        lambda batch: (batch, batch.add_(1)),
    ],
)
def test_other_inputs_are_no_repeat(look, given):
    class Changes(Two):
        def training_step(self, batch, batch_idx):
            first = self.policy(batch).square().mean().detach()
            return first + self.value(self.given(batch)[1]).square().mean()

    assert look(Changes(given=given)) == ()


def test_a_view_made_twice_is_the_same_input(look):
    (found,) = look(Two(given=lambda batch: (batch[:, :], batch[:, :])))
    assert found.name == "encoder"


def test_a_tensor_at_the_address_of_one_that_is_gone_is_another(look):
    class Denoises(Two):
        def training_step(self, batch, batch_idx):
            with torch.no_grad():
                for _ in range(5):
                    batch = self.encoder(batch)
            return self.layer(batch).sum()

    assert look(Denoises()) == ()


def test_outputs_that_differ_are_meant_so(look):
    assert look(Two(torch.nn.Dropout())) == ()


def test_what_runs_once_is_not_looked_at_again(look, monkeypatch):
    monkeypatch.setattr(call_watch.CallWatch, "_compare", None)  # would fail if it was called
    assert look(BoringModel()) == ()


def test_weights_that_were_changed_meanwhile_give_something_else(look):
    class Steps(Two):
        def training_step(self, batch, batch_idx):
            loss = self.policy(batch).square().mean()
            with torch.no_grad():
                self.encoder[0].weight.mul_(0.5)
            return loss.detach() + self.value(batch).square().mean()

    assert look(Steps()) == ()


def test_activations_that_are_recomputed_are_no_repeat(look):
    class Checkpointed(BoringModel):
        def training_step(self, batch, batch_idx):
            batch.requires_grad_()
            return checkpoint(self.layer, batch, use_reentrant=False).sum()

    assert look(Checkpointed()) == ()


def test_a_pass_without_gradients_spares_no_backward_pass(look):
    class Measures(BoringModel):
        def training_step(self, batch, batch_idx):
            with torch.no_grad():
                self.log("size", self(batch).abs().mean())
            return self(batch).sum()

    (found,) = look(Measures())
    assert (found.name, found.calls, found.backward_frac) == ("", 2, 0)


def test_gradients_of_two_backward_passes_are_both_needed(look):
    class Manual(Two):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.manual_backward(self.policy(batch).sum())
            self.manual_backward(self.value(batch).sum())

    (found,) = look(Manual())
    assert found.backward_frac == 0


def test_evaluation_on_the_training_batch_is_not_looked_at(look):
    class Evaluates(Two):
        def training_step(self, batch, batch_idx):
            self.eval()
            with torch.no_grad():
                self.policy(batch)
            self.train()
            return self.policy(batch).sum()

    assert look(Evaluates()) == ()


def test_a_run_that_compiles_is_left_alone(look, monkeypatch):
    monkeypatch.setattr(call_watch.CompileWatch, "compiled_before", staticmethod(lambda: True))
    assert look(Two()) == ()


def test_while_a_graph_is_captured_nothing_is_computed_beside(look, monkeypatch):
    def sums(*_, **__):
        raise AssertionError("this would become a part of the graph")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(torch.linalg, "vector_norm", sums)
    assert look(Two()) == ()


def test_a_run_that_ends_while_it_looks_is_not_judged(look):
    assert look(Two(), batches=3) == ()


def test_a_run_that_ends_after_the_look_is_noted(look):
    assert len(look(Two(), batches=5)) == 1


class Late:
    """A copy that arrives some batches later, as on a device."""

    def __init__(self, values):
        self._values, self._asked = values, 0

    def ready(self):
        self._asked += 1
        return self._asked > 3

    def result(self):
        return self._values


def test_it_does_not_wait_for_a_copy(look, monkeypatch):
    monkeypatch.setitem(CallWatch.__init__.__kwdefaults__, "transfer", Late)
    assert len(look(Two(), batches=12)) == 1


class Songs(BoringModel):
    """Looks up two songs of each sample in a table."""

    def __init__(self, **options):
        super().__init__()
        self.song = torch.nn.Embedding(500, 4, **options)
        self.out = torch.nn.Linear(4, 500, bias=False)

    def training_step(self, batch, batch_idx):
        return self.out(self.song(batch[:, :2].long().abs() % 500)).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


def test_the_rows_that_a_batch_looks_up_are_noted_with_the_line(look):
    (found,) = look(Songs(), tables=True)
    assert (found.name, found.rows, found.width, found.looked_up) == ("song", 500, 4, 2)
    assert found.place.function == "training_step"


def test_a_table_with_sparse_gradients_or_none_is_not_noted(look):
    assert look(Songs(sparse=True), tables=True) == ()
    frozen = Songs()
    frozen.song.requires_grad_(False)
    assert look(frozen, tables=True) == ()


def test_a_table_that_the_last_layer_shares_is_not_noted(look):
    model = Songs()
    model.out.weight = model.song.weight
    assert look(model, tables=True) == ()


class CalledTwice(BoringModel):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer_closure()
        optimizer.step(closure=optimizer_closure)


class CalledOnce(BoringModel):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
        optimizer.step(closure=optimizer_closure)


def test_a_closure_that_the_module_calls_besides_is_noted_with_its_line(look):
    (found,) = look(CalledTwice())
    assert (found.calls, found.passes) == (2, 2)
    assert found.closure.source == "optimizer_closure()"
    assert look(CalledOnce()) == ()


def test_two_passes_by_hand_are_no_closure(look):
    class Manual(BoringModel):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            for _ in range(2):
                self.manual_backward(self.step(batch))
            self.optimizers().zero_grad()

    (found,) = look(Manual())
    assert (found.passes, found.closure) == (2, None)
