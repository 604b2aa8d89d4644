from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback
from timed_parts import Part

from lightning_gpuprof.recorders import gradient_sync
from lightning_gpuprof.recorders.gradient_sync import GradientSync
from lightning_gpuprof.runtime.guard import is_disabled
from lightning_gpuprof.runtime.hooks import dispatcher_of


def steps(part, count=2):
    """Make backward passes of two ranks; return the recorder, and the gradient that they leave."""
    host, recorder = Callback(), GradientSync()
    recorder.setup(
        SimpleNamespace(step=0, write=lambda record: None),
        SimpleNamespace(part=lambda name: part, running=True),
    )
    recorder.on_train_start(SimpleNamespace(world_size=2), dispatcher_of(host))
    weight = torch.ones(1, requires_grad=True)
    for _ in range(count):
        loss = (2 * weight).sum()
        if host.on_before_backward:
            host.on_before_backward(None, None, loss)
        loss.backward()
        if host.on_after_backward:
            host.on_after_backward(None, None)
    recorder.release()
    return recorder, weight.grad.item()


def test_the_end_of_each_backward_pass_is_the_exchange():
    part = Part()
    recorder, gradient = steps(part)
    assert (part.calls, gradient) == (["enter", "exit"] * 2, 4)
    assert not is_disabled(recorder)


@pytest.mark.parametrize("fails", ["enter", "exit", "queue"])
@pytest.mark.filterwarnings("ignore:GradientSync failed")
def test_its_failure_does_not_reach_the_backward_pass(monkeypatch, fails):
    def no_queue(call):
        raise RuntimeError("planted")

    part = Part(fails)
    if fails == "queue":
        monkeypatch.setattr(gradient_sync, "at_end_of_backward", no_queue)
    recorder, gradient = steps(part)
    assert (is_disabled(recorder), gradient) == (True, 4)
    assert part.calls.count("enter") <= 1
