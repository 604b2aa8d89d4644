"""Needless work by line: gradients, kept graphs; and Python calls per step."""

import cProfile
import multiprocessing
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import seeded_breaks
import torch
from inspected import inspected
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.cli.inspect import text
from lightning_gpuprof.records.facts import SyncSteps, UnusedGradients
from lightning_gpuprof.records.inspection import Inspection


class Two(BoringModel):
    """A layer that is trained, and a second one."""

    def __init__(self):
        super().__init__()
        self.second = torch.nn.Sequential(torch.nn.Linear(32, 2), torch.nn.Tanh())

    def training_step(self, batch, batch_idx):
        return (self.layer(batch) - self.second(batch)).square().mean()


@pytest.fixture
def waste(tmp_path):
    """Return what a model wastes, by kind, and the sources of the lines."""

    def found(model, *callbacks, **options):
        rows = inspected(tmp_path, model, *callbacks, **options).waste
        return [(row.kind, row.place and row.place.source) for row in rows], rows

    return found


def test_gradients_of_parameters_in_no_optimizer_are_named_by_their_module(waste):
    class Teacher(Two):
        def configure_optimizers(self):
            return torch.optim.SGD(self.layer.parameters(), 0.1)

    found, (row,) = waste(Teacher())
    assert found == [("unused-gradients", None)]
    assert "66 parameters" in row.title
    assert row.title.endswith(": second")
    assert row.advice.startswith("self.second.requires_grad_(False)")


def test_rules_of_a_run_read_what_was_found_as_records():
    unused = UnusedGradients(1, 2, 3, ("second",))
    found = Inspection(sync_steps=3, unused_gradients=unused).records()
    assert found == [SyncSteps(3), unused]


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_a_learning_rate_of_0_uses_no_gradient(waste, rate):
    class Slow(Two):
        def configure_optimizers(self):
            groups = [{"params": self.layer.parameters()}]
            return torch.optim.SGD([*groups, {"params": self.second.parameters(), "lr": rate}], 0.1)

    found, _ = waste(Slow())
    assert [kind for kind, _ in found] == ([] if rate else ["unused-gradients"])


class Retains(BoringModel):
    def backward(self, loss, *args, **kwargs):
        loss.backward(retain_graph=True)


class RetainsManually(BoringModel):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        self.manual_backward(self.layer(batch).mean(), retain_graph=True)


@pytest.mark.parametrize("model", [Retains, RetainsManually])
def test_a_graph_that_is_kept_is_named_by_the_line_that_keeps_it(waste, model):
    ((kind, source),), _ = waste(model())
    assert kind == "retained-graph"
    assert source.endswith("retain_graph=True)")


def test_a_second_derivative_needs_its_graph(waste):
    class Penalty(BoringModel):
        def backward(self, loss, *args, **kwargs):
            loss.backward(retain_graph=True, create_graph=True)

    assert waste(Penalty())[0] == []


@pytest.mark.parametrize("on", [True, False])
def test_anomaly_detection_is_found_while_it_is_on(waste, on):
    detect = torch.autograd.detect_anomaly  # called so, or other tests would take it for their line

    class Model(BoringModel):
        def backward(self, loss, *args, **kwargs):
            with detect(check_nan=False) if on else nullcontext():
                loss.backward()

    found, _ = waste(Model())
    assert [kind for kind, _ in found] == ["anomaly-detection"] * on


class Loops(BoringModel):
    def training_step(self, batch, batch_idx):
        for _ in range(40):
            self.idle()
        return super().training_step(batch, batch_idx)

    def idle(self):
        return abs(-1)


def test_python_calls_are_counted_by_the_users_function(tmp_path):
    found = inspected(tmp_path, Loops(), steps=2)
    step, idle = found.calls[:2]
    assert (step.function, step.calls) == ("training_step", 1)
    assert (idle.function, idle.calls, idle.makes) == ("idle", 40, 40)
    assert step.makes > 40
    assert Path(step.file).name == "test_work.py"
    assert found.calls_per_step > 80 + step.makes - 40


class Rollout(BoringModel):
    def training_step(self, batch, batch_idx):
        ours, theirs = multiprocessing.Pipe()
        for _ in range(20):
            theirs.send(1)
            assert ours.poll()
            assert ours.recv()
        return super().training_step(batch, batch_idx)


def test_calls_to_worker_processes_of_the_programs_own_are_counted_with_advice(tmp_path):
    found = inspected(tmp_path, Rollout(), steps=2)
    calls = {row.function: row.calls for row in found.calls if row.to_workers}
    assert calls["recv"] == 20
    assert "-> For your own worker processes, in order of effort: 1. send" in text(found)
    assert "worker processes" not in text(inspected(tmp_path, Loops()))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="profilers replace each other")
def test_under_another_profiler_no_calls_are_counted(tmp_path):
    with cProfile.Profile():
        found = inspected(tmp_path, Loops())
    assert (found.calls, found.calls_per_step) == ((), None)


def test_ten_seeded_graph_breaks_are_found_each_at_its_line_with_a_reason(waste):
    torch._dynamo.reset()
    _, rows = waste(seeded_breaks.Breaks())
    torch._dynamo.utils.graph_break_reasons.clear()  # an inspection after this is not told of them
    breaks = [row for row in rows if row.kind == "graph-break"]
    source = Path(seeded_breaks.__file__).read_text().splitlines()
    seeded = [number for number, line in enumerate(source, 1) if "# BREAK" in line]
    assert len(seeded) == 10
    assert sorted(row.place.line for row in breaks) == seeded
    assert all(row.title.split(": ", 1)[1] and row.advice for row in breaks)
