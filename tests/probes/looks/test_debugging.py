import gc
import linecache
import sys
import tracemalloc
from types import ModuleType

import pytest

from lightning_gpuprof.probes.looks import debugging
from lightning_gpuprof.probes.looks.debugging import debugging_on
from lightning_gpuprof.records.debugging import Tool


def tools(environ=None):
    return {one.tool: one for one in debugging_on(environ or {})}


@pytest.fixture
def script(monkeypatch):
    """A file of the program that is loaded, with these lines."""

    def loaded(*lines):
        file = "/home/someone/train.py"
        text = [line + "\n" for line in lines]
        monkeypatch.setitem(linecache.cache, file, (0, None, text, file))
        module = ModuleType("train")
        module.__file__ = file
        monkeypatch.setitem(sys.modules, "__main__", module)

    return loaded


@pytest.fixture
def quiet(monkeypatch):
    """No tool of the test run's own: coverage is one."""
    monkeypatch.setattr(debugging.sys, "gettrace", lambda: None)
    monkeypatch.setattr(debugging.sys, "getprofile", lambda: None)
    monkeypatch.setattr(debugging, "_monitor", lambda **_: None)
    monkeypatch.setattr(tracemalloc, "is_tracing", lambda: False)


def test_nothing_is_on_in_an_ordinary_process(quiet):
    assert tools({"PYTHONMALLOC": "pymalloc", "CUDA_LAUNCH_BLOCKING": "0"}) == {}


def test_a_tracer_of_allocations_is_found_with_its_line(quiet, script, monkeypatch):
    script("import tracemalloc", "# tracemalloc.start()", "tracemalloc.start(25)")
    monkeypatch.setattr(tracemalloc, "is_tracing", lambda: True)
    monkeypatch.setattr(tracemalloc, "get_traceback_limit", lambda: 25)
    found = tools()[Tool.TRACEMALLOC]
    assert (found.by, found.place.line, found.place.source) == ("25", 3, "tracemalloc.start(25)")


def test_a_profile_function_is_named_as_it_was_written(quiet, script, monkeypatch):
    def count(frame, event, arg):
        pass

    script("import sys", "sys.setprofile(count)")
    monkeypatch.setattr(debugging.sys, "getprofile", lambda: count)
    found = tools()[Tool.PROFILE]
    assert found.by.endswith("count")
    assert found.place.line == 2


def test_a_trace_function_of_an_object_is_named_by_its_class(quiet, monkeypatch):
    class Tracer:
        def __call__(self, frame, event, arg):
            return self

    monkeypatch.setattr(debugging.sys, "gettrace", Tracer)
    assert tools()[Tool.TRACE].by.endswith("Tracer")


def test_a_debugged_collector_is_found(quiet):
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        assert Tool.GC in tools()
    finally:
        gc.set_debug(0)


@pytest.mark.parametrize(
    ("variable", "value", "tool"),
    [
        ("PYTHONMALLOC", "debug", Tool.ALLOCATOR),
        ("CUDA_LAUNCH_BLOCKING", "1", Tool.LAUNCH_BLOCKING),
        ("TORCH_DISTRIBUTED_DEBUG", "DETAIL", Tool.DISTRIBUTED),
    ],
)
def test_variables_of_the_environment_are_found(quiet, variable, value, tool):
    assert tools({variable: value})[tool].by == f"{variable}={value}"
