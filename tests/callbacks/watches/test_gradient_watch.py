from itertools import count

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from torch.optim.optimizer import _global_optimizer_post_hooks

from lightning_gpuprof.callbacks.watches.gradient_watch import GradientWatch
from lightning_gpuprof.probes.looks import gradient_use
from lightning_gpuprof.records.notes import unused_gradients
from lightning_gpuprof.records.schema import Note


@pytest.fixture
def look(session_of):
    def fitted(model, batches=12, **options):
        watch = GradientWatch(clock=count(0, 10).__next__)
        session = session_of(model, watch, limit_train_batches=batches, **options)
        return unused_gradients(session.all(Note))

    return fitted


class Distills(BoringModel):
    """Its teacher is in no optimizer."""

    def __init__(self, *, frozen):
        super().__init__()
        self.teacher = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.Linear(64, 2))
        self.frozen = frozen

    def training_step(self, batch, batch_idx):
        with torch.set_grad_enabled(not self.frozen):
            wanted = self.teacher(batch)
        return (self.layer(batch) - wanted).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.01)


class Judged(BoringModel):
    """A judge in no optimizer is given what the trained layer gives, and has an unused end."""

    def __init__(self):
        super().__init__()
        self.judge = torch.nn.Sequential(
            torch.nn.Linear(2, 64), torch.nn.Linear(64, 4), torch.nn.Linear(4, 4)
        )

    def training_step(self, batch, batch_idx):
        return self.judge[:2](self.layer(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.01)


class HeadTuned(BoringModel):
    """Of a model the head alone is in the optimizer, the body's gradients are for nothing."""

    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(32, 8),
            torch.nn.Sequential(torch.nn.Linear(8, 8)),
            torch.nn.Linear(8, 2),
        )

    def training_step(self, batch, batch_idx):
        return self.model(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.model[2].parameters(), 0.01)


class Tunes(BoringModel):
    """Its body is in the optimizer with a learning rate of 0."""

    def __init__(self, *, rate=0.0, warmup=False, head_rate=0.01):
        super().__init__()
        self.body = torch.nn.Linear(32, 32)
        self.rate, self.warmup, self.head_rate = rate, warmup, head_rate

    def training_step(self, batch, batch_idx):
        return self.layer(self.body(batch)).square().mean()

    def configure_optimizers(self):
        groups = [
            {"params": self.body.parameters(), "lr": self.rate},
            {"params": self.layer.parameters()},
        ]
        optimizer = torch.optim.SGD(groups, self.head_rate)
        if not self.warmup:
            return optimizer
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 100)
        return [optimizer], [{"scheduler": scheduler, "interval": "epoch"}]


class Gan(BoringModel):
    def __init__(self, *, detached, toggled):
        super().__init__()
        self.automatic_optimization = False
        self.generator = torch.nn.Linear(8, 32)
        self.detached, self.toggled = detached, toggled

    def training_step(self, batch, batch_idx):
        generates, judges = self.optimizers()
        if self.toggled:
            self.toggle_optimizer(generates)
        generates.zero_grad()
        self.manual_backward(self.layer(self.generator(batch[:, :8])).mean())
        generates.step()
        if self.toggled:
            self.untoggle_optimizer(generates)
        fake = self.generator(batch[:, :8])
        judges.zero_grad()
        self.manual_backward(self.layer(fake.detach() if self.detached else fake).mean())
        judges.step()

    def configure_optimizers(self):
        return [
            torch.optim.SGD(self.generator.parameters(), 0.01),
            torch.optim.SGD(self.layer.parameters(), 0.01),
        ]


class Lbfgs(BoringModel):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), max_iter=4)


class AddsUp(BoringModel):
    """Steps by hand once in two batches."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        self.manual_backward(self.step(batch))
        if batch_idx % 2:
            optimizer.step()
            optimizer.zero_grad()


class OwnOptimizer(BoringModel):
    """Steps with an optimizer that the Trainer has never heard of."""

    def __init__(self):
        super().__init__()
        self.own = torch.nn.Linear(32, 2)
        self.optimizer = torch.optim.SGD(self.own.parameters(), 0.01)

    def training_step(self, batch, batch_idx):
        return (self.layer(batch) - self.own(batch)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.layer.parameters(), 0.01)

    def on_train_batch_end(self, *_):
        self.optimizer.step()
        self.optimizer.zero_grad()


class ByHand(OwnOptimizer):
    def on_train_batch_end(self, *_):
        for parameter in self.own.parameters():
            parameter.data -= 0.01 * parameter.grad
            parameter.grad = None


class Sharpness(AddsUp):
    """Moves up the gradient, takes the one that counts there, and moves back."""

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.step(batch))
        weights = list(self.parameters())
        with torch.no_grad():
            moves = [0.05 * weight.grad for weight in weights]
            torch._foreach_add_(weights, moves)
        optimizer.zero_grad()
        self.manual_backward(self.step(batch))
        with torch.no_grad():
            torch._foreach_sub_(weights, moves)
        optimizer.step()


class Joined(AddsUp):
    """Steps on what two losses' gradients have in common."""

    def training_step(self, batch, batch_idx):
        optimizer, taken = self.optimizers(), []
        for part in (batch, 2 * batch):
            optimizer.zero_grad()
            self.manual_backward(self.step(part))
            taken.append([weight.grad.clone() for weight in self.parameters()])
        for weight, *each in zip(self.parameters(), *taken, strict=True):
            weight.grad = torch.stack(each).amin(0)
        optimizer.step()


def test_a_teacher_without_no_grad_is_noted_with_its_size(look):
    found = look(Distills(frozen=False))
    assert (found.tensors, found.modules, found.stepped) == (4, ("teacher",), False)
    assert found.parameters == 32 * 64 + 64 + 64 * 2 + 2
    assert found.all_parameters == found.parameters + 66
    assert 0 < found.sure_frac + found.maybe_frac < 1
    assert found.through is False


def test_a_judge_that_is_given_what_is_trained_hands_a_gradient_on(look):
    found = look(Judged())
    assert (found.tensors, found.modules, found.through) == (4, ("judge",), True)
    assert found.maybe_frac > found.sure_frac == 0


def test_a_model_that_is_trained_in_part_is_named_by_its_other_parts(look):
    found = look(HeadTuned())
    assert sorted(found.modules) == ["model.0", "model.1"]


def test_a_generator_that_is_not_detached_is_noted(look):
    found = look(Gan(detached=False, toggled=True))
    assert (found.tensors, found.modules, found.stepped) == (2, ("generator",), True)
    # Its gradients in its own pass are used: only those of the other's are not, which come last.
    assert 0 < found.sure_frac < 0.5
    assert found.maybe_frac == 0


def test_a_judge_whose_weights_get_gradients_in_the_others_pass_is_noted(look):
    found = look(Gan(detached=True, toggled=False))
    assert (found.modules, found.stepped) == (("layer",), True)
    # The generator's come after them, and by way of them.
    assert found.sure_frac == 0
    assert 0 < found.maybe_frac < 1


@pytest.mark.parametrize(
    "model",
    [
        lambda: BoringModel(),
        lambda: Distills(frozen=True),
        lambda: Gan(detached=True, toggled=True),
        lambda: Lbfgs(),
        lambda: AddsUp(),
        lambda: OwnOptimizer(),
        lambda: ByHand(),
        lambda: Sharpness(),
        lambda: Joined(),
    ],
)
def test_gradients_that_somebody_steps_on_are_not_noted(look, model):
    assert look(model()) is None


@pytest.mark.parametrize("every", [2, 4])
def test_gradients_that_are_added_up_are_not_noted(look, every):
    assert look(BoringModel(), batches=40, accumulate_grad_batches=every) is None
    found = look(Distills(frozen=False), batches=40, accumulate_grad_batches=every)
    assert found.modules == ("teacher",)


@pytest.mark.parametrize("batches", [12, 8])
def test_values_that_arrive_later_are_not_waited_for(look, monkeypatch, batches):
    class Late:
        """Arrives when it was asked for three times; with few batches, not before the end."""

        def __init__(self, values):
            self.values, self.asked = values, 0

        def ready(self):
            self.asked += 1
            return self.asked > 3

        def result(self):
            waited.append(self.asked <= 3)
            return self.values

    waited = []
    monkeypatch.setattr(gradient_use.ValueChanges.__init__, "__defaults__", (Late,))
    assert look(Distills(frozen=False), batches=batches).tensors == 4
    assert waited == [batches == 8]


def test_a_run_too_short_to_tell_notes_nothing(look):
    assert look(Distills(frozen=False), batches=5) is None


def test_it_leaves_no_hook_behind(look):
    model = Distills(frozen=False)
    look(model)
    assert not any(p._post_accumulate_grad_hooks for p in model.parameters())
    assert not any(part._forward_pre_hooks for part in model.modules())
    assert not _global_optimizer_post_hooks


def test_it_changes_no_weight(look):
    torch.manual_seed(0)
    watched = Distills(frozen=False)
    look(watched)
    torch.manual_seed(0)
    alone = Distills(frozen=False)
    Trainer(
        logger=False,
        max_epochs=1,
        limit_train_batches=12,
        limit_val_batches=0,
    ).fit(alone)
    for one, other in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_body_with_a_learning_rate_of_0_is_stepped_on_for_nothing(look):
    found = look(Tunes())
    assert (found.tensors, found.rate_zero, found.stepped) == (2, 2, False)
    assert found.all_stepped == 4  # the head, too
    assert found.modules == ("body",)
    assert found.sure_frac > 0
    assert found.maybe_frac == 0


@pytest.mark.parametrize(
    "model",
    [
        Tunes(rate=1e-9),
        Tunes(rate=0.01, warmup=True),  # its first epoch has a rate of 0
        Tunes(head_rate=0.0),  # nothing moves: somebody looks at something else
    ],
)
def test_a_rate_that_is_small_or_rises_and_a_run_in_which_nothing_moves_are_not_noted(look, model):
    assert look(model) is None
