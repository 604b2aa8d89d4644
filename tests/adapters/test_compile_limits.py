"""What dynamo says when it gives a function up is kept with the run."""

import logging

import pytest
import torch

from lightning_gpuprof.adapters.dynamo import LOGGER, CompileLimits, read_warning
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.facts import CompileLimit

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


def given_up(timer, planted):
    return planted.sessions(timer)[0].session.all(CompileLimit)


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

    (found,) = given_up(timer, planted)
    assert (found.place.function, found.count) == ("scaled", 2)
    assert "times" in found.reason
    assert found.place.source == "def scaled(self, batch, times):"
    assert logging.getLogger(LOGGER).handlers == before
