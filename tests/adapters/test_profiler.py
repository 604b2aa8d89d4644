import os
import subprocess
import sys
import warnings

import pytest

from lightning_gpuprof.adapters import profiler
from lightning_gpuprof.adapters.profiler import TorchTrace

TWO_CYCLES = """
import torch
from lightning_gpuprof.adapters.profiler import TorchTrace

for _ in range(2):
    trace = TorchTrace(
        device_type="cpu", record_shapes=False, profile_memory=False, with_stack=False,
        on_intruder=print,
    )
    trace.prepare()
    trace.start()
    torch.ones(1)
    trace.stop()
"""


def traced(*, device_type="cpu", on_intruder=print):
    return TorchTrace(
        device_type=device_type,
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        on_intruder=on_intruder,
    )


def test_recording_says_nothing_on_the_terminal():
    done = subprocess.run([sys.executable, "-c", TWO_CYCLES], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "profiler_start" not in done.stderr


def test_what_torch_says_of_further_cycles_is_not_shown_and_other_warnings_are(monkeypatch):
    class Profiler:
        def __init__(self, **_):
            pass

        def prepare_trace(self):
            warnings.warn(
                "Warning: Profiler clears events at the end of each cycle.Only events from ...",
                stacklevel=2,
            )
            warnings.warn("CUPTI is missing", stacklevel=2)

    monkeypatch.setattr(profiler._torch_profiler, "_KinetoProfile", Profiler)
    trace = traced()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trace.prepare()
    trace._restore()
    assert [str(one.message) for one in seen] == ["CUPTI is missing"]


@pytest.mark.parametrize(("given", "at_work"), [(None, "6"), ("0", "0")])
def test_the_level_of_kinetos_lines_is_set_for_its_start_alone(monkeypatch, given, at_work):
    seen = []

    class Profiler:
        def __init__(self, **_):
            pass

        def prepare_trace(self):
            seen.append(os.environ.get("KINETO_LOG_LEVEL"))

    if given is None:
        monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    else:
        monkeypatch.setenv("KINETO_LOG_LEVEL", given)
    monkeypatch.setattr(profiler._torch_profiler, "_KinetoProfile", Profiler)
    trace = traced()
    trace.prepare()
    trace._restore()
    assert seen == [at_work]
    assert os.environ.get("KINETO_LOG_LEVEL") == given


class Recorder:
    """torch.profiler's, but for recording anything."""

    said: list  # what the environment says of CUPTI whenever a recording begins and ends

    def __init__(self, **_):
        pass

    def start_trace(self):
        pass

    def prepare_trace(self):
        self.said.append(os.environ.get("TEARDOWN_CUPTI"))

    stop_trace = prepare_trace


@pytest.fixture
def recorded(monkeypatch):
    """What the environment said when each recording began and ended; `stopped` makes one."""
    monkeypatch.delenv("TEARDOWN_CUPTI", raising=False)
    monkeypatch.setattr(profiler._torch_profiler, "_KinetoProfile", Recorder)
    monkeypatch.setattr(profiler.torch._C._autograd, "_profiler_enabled", lambda: True)
    monkeypatch.setattr(profiler.torch.version, "cuda", "13.0")
    Recorder.said = []
    yield Recorder.said
    os.environ.pop("TEARDOWN_CUPTI", None)


def stopped(*, device_type="cuda", intruded=False, detach=True):
    trace = traced(device_type=device_type, on_intruder=lambda: trace.stop(detach=detach))
    trace.prepare()
    trace.start()
    if intruded:
        profiler._autograd_profiler._prepare_profiler()
    else:
        trace.stop(detach=detach)


def test_cupti_is_detached_where_that_is_asked_for_and_the_environment_is_as_it_was(recorded):
    for detach in (False, True):
        stopped(detach=detach)
        assert "TEARDOWN_CUPTI" not in os.environ
    assert recorded == ["1", None, "1", "1"]


def test_cupti_stays_for_a_profiler_that_begins_at_once(recorded, monkeypatch):
    monkeypatch.setattr(profiler._autograd_profiler, "_prepare_profiler", lambda: None)
    stopped(intruded=True)
    assert recorded == ["1", None]


@pytest.mark.parametrize(("version", "said"), [("12.6", "1"), ("12.4", None), (None, None)])
def test_cupti_stays_where_detaching_it_may_crash_and_on_hip(recorded, monkeypatch, version, said):
    monkeypatch.setattr(profiler.torch.version, "cuda", version)
    stopped()
    assert recorded == [said, said]


def test_cupti_is_no_matter_without_a_device(recorded):
    stopped(device_type="cpu")
    assert recorded == [None, None]


@pytest.mark.parametrize("said", ["0", "1"])
def test_a_variable_that_the_user_set_is_kept(recorded, monkeypatch, said):
    monkeypatch.setenv("TEARDOWN_CUPTI", said)
    stopped()
    assert recorded == [said, said]
    assert os.environ["TEARDOWN_CUPTI"] == said


def test_a_variable_that_torch_sets_meanwhile_is_kept(recorded, monkeypatch):
    def torch_forbids(profiler):
        os.environ["TEARDOWN_CUPTI"] = "0"

    monkeypatch.setattr(Recorder, "start_trace", torch_forbids)
    stopped()
    stopped()
    assert recorded == ["1", "0", "0", "0"]


def test_every_private_name_is_there_and_one_that_is_not_is_named(monkeypatch):
    assert profiler.missing() == []
    monkeypatch.delattr(profiler._autograd_profiler, "_prepare_profiler")
    assert profiler.missing() == ["_prepare_profiler"]
