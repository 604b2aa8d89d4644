"""What dynamo tells of compilations, and of functions that it gives up."""

import runpy
import sys
from types import SimpleNamespace

import pytest
import torch

from lightning_gpuprof.adapters import dynamo as adapter
from lightning_gpuprof.adapters.dynamo import Compilations


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


def test_it_is_torchs_own_question_which_dynamo_knows():
    assert adapter.is_compiling is torch.compiler.is_compiling


def test_torch_2_2_has_none_and_is_not_asked(monkeypatch):
    monkeypatch.delattr(torch.compiler, "is_compiling")
    assert runpy.run_path(adapter.__file__)["is_compiling"]() is False
