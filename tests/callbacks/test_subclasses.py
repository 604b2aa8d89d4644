"""Hooks that a program's own subclass adds are called, beside those that it does not know of."""

import pytest
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer

STEPS = 12


def counting(base, *hooks):
    """Return a subclass that counts the calls of hooks, and the hooks that it calls in turn."""

    def counter(name):
        def hook(self, *args, **kwargs):
            self.calls[name] = self.calls.get(name, 0) + 1
            getattr(super(Counting, self), name)(*args, **kwargs)

        return hook

    class Counting(base):
        def __init__(self, *args, **kwargs):
            self.calls = {}
            super().__init__(*args, **kwargs)

    for name in hooks:
        setattr(Counting, name, counter(name))
    return Counting


@pytest.fixture
def fit(session_of):
    def fitted(callback, model=None, **options):
        options = {"limit_train_batches": STEPS, "max_epochs": 2, **options}
        return session_of(model or BoringModel(), callback, **options)

    return fitted


HOOKS = ("on_train_epoch_end", "on_train_batch_start", "on_train_batch_end", "on_train_end")


def test_hooks_of_the_whole_callbacks_subclass_are_called_beside_its_parts(fit):
    settings = {"console": False, "trace": False, "report": False, "lines": False}
    callback = counting(GpuProfCallback, "setup", *HOOKS)(**settings)
    session = fit(callback)
    each = dict.fromkeys(HOOKS, 2 * STEPS) | {"on_train_epoch_end": 2, "on_train_end": 1}
    assert callback.calls == each | {"setup": 1}
    assert session.end.steps == 2 * STEPS


def test_hooks_of_a_parts_subclass_are_called_while_it_measures_and_after(fit):
    callback = counting(PhaseTimer, "on_train_batch_end", "on_before_backward")()
    assert fit(callback).end.steps == 2 * STEPS
    assert callback.calls == dict.fromkeys(("on_train_batch_end", "on_before_backward"), 2 * STEPS)
