import os
import subprocess
import sys
import warnings

import pytest

from lightning_gpuprof.probes import torch_trace
from lightning_gpuprof.probes.torch_trace import TorchTrace

TWO_CYCLES = """
import torch
from lightning_gpuprof.probes.torch_trace import TorchTrace

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

    monkeypatch.setattr(torch_trace._torch_profiler, "_KinetoProfile", Profiler)
    trace = TorchTrace(
        device_type="cpu",
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        on_intruder=print,
    )
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        trace.prepare()
    trace._unwatch()
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
    monkeypatch.setattr(torch_trace._torch_profiler, "_KinetoProfile", Profiler)
    trace = TorchTrace(
        device_type="cpu",
        record_shapes=False,
        profile_memory=False,
        with_stack=False,
        on_intruder=lambda: None,
    )
    trace.prepare()
    trace._unwatch()
    assert seen == [at_work]
    assert os.environ.get("KINETO_LOG_LEVEL") == given
