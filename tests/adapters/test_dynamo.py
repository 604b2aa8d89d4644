"""What dynamo tells of compilations, and of functions that it gives up."""

import logging
import runpy
import sys
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.adapters import dynamo as adapter
from lightning_gpuprof.adapters.dynamo import LOGGER, Compilations, CompileLimits, read_warning
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.facts import CompileLimit


@pytest.fixture
def dynamo(monkeypatch):
    """Stand in for `torch._dynamo.utils`."""
    fake = SimpleNamespace(counters={"frames": {"total": 1}}, cumulative_time_spent_ns={})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", fake)
    return fake


def test_what_was_compiled_before_is_no_news(dynamo):
    dynamo.cumulative_time_spent_ns["entire_frame_compile"] = 500
    compilations = Compilations()
    assert not compilations.compiled_since()
    assert compilations.took_ns() == 0


def test_forward_and_backward_are_timed_from_one_look_to_the_next(dynamo):
    compilations, times = Compilations(), dynamo.cumulative_time_spent_ns
    dynamo.counters["frames"]["total"] = 2
    times |= {"entire_frame_compile": 700, "backend_compile": 600}
    assert compilations.compiled_since()
    assert compilations.took_ns() == 700
    times |= {"entire_frame_compile": 900, "entire_backward_compile": 50}
    assert compilations.took_ns() == 250
    assert not compilations.compiled_since()


def test_a_reset_of_dynamo_begins_anew(dynamo):
    compilations, times = Compilations(), dynamo.cumulative_time_spent_ns
    times["entire_frame_compile"] = 900
    compilations.took_ns()
    times.clear()
    times["entire_frame_compile"] = 40
    assert compilations.took_ns() == 40


def test_an_older_dynamo_does_not_say(dynamo):
    del dynamo.cumulative_time_spent_ns
    assert Compilations().took_ns() is None


def test_it_is_torchs_own_question_which_dynamo_knows():
    assert adapter.is_compiling is torch.compiler.is_compiling


def test_torch_2_2_has_none_and_is_not_asked(monkeypatch):
    monkeypatch.delattr(torch.compiler, "is_compiling")
    assert runpy.run_path(adapter.__file__)["is_compiling"]() is False


SAID = """torch._dynamo hit config.{limit} (8)
   function: 'forward' ({file}:3)
   last reason: {reason}
To log all recompilation reasons, use TORCH_LOGS="recompiles".
To diagnose recompilation issues, see https://pytorch.org/docs"""


def said(reason, limit="recompile_limit", file="model.py"):
    return read_warning(SAID.format(limit=limit, reason=reason, file=file))


def test_the_function_the_limit_and_the_guard_are_read(tmp_path):
    file = tmp_path / "net.py"
    file.write_text("class Net:\n\n    def forward(self, x):\n        return x\n")
    found = said("0/7: tensor 'x' size mismatch at index 0. expected 10, actual 11", file=file)
    assert (found.limit, found.count) == ("recompile_limit", 8)
    assert found.reason == "tensor 'x' size mismatch at index 0. expected 10, actual 11"
    assert (found.place.line, found.place.function) == (3, "forward")
    assert found.place.source == "def forward(self, x):"


def test_what_follows_a_guard_is_left_out():
    found = said("0/7: s.n == 7      # s.n+=1  # net.py:8 in forward (HINT: torch.compile ...)")
    assert found.reason == "s.n == 7"


def test_an_older_torch_has_another_name_for_the_limit():
    assert said("L['k'] == 7", limit="cache_size_limit").limit == "cache_size_limit"


def test_other_warnings_of_dynamos_are_left_alone():
    limits = CompileLimits()
    logging.getLogger(LOGGER).warning("WON'T CONVERT %s", "forward")
    assert limits.take() == []
    limits.close()


@pytest.fixture
def twice():
    """Dynamo compiles a function twice at most."""
    torch._dynamo.reset()
    with torch._dynamo.config.patch(cache_size_limit=2):
        yield
    torch._dynamo.reset()


def test_a_function_that_is_given_up_in_training_is_noted_once(planted, clock, tmp_path, twice):
    class Model(planted.Model):
        def scaled(self, batch, times):
            return batch * times

        def training_step(self, batch, batch_idx):
            torch.compile(self.scaled, backend="eager", dynamic=False)(batch, 1.5 + batch_idx)
            return super().training_step(batch, batch_idx)

    timer = PhaseTimer(clock=clock)
    before = list(logging.getLogger(LOGGER).handlers)
    planted.fit(timer, clock, tmp_path, model=Model(clock))

    (found,) = planted.sessions(timer)[0].session.all(CompileLimit)
    assert (found.place.function, found.count) == ("scaled", 2)
    assert "times" in found.reason
    assert found.place.source == "def scaled(self, batch, times):"
    assert logging.getLogger(LOGGER).handlers == before
