"""CUPTI is detached behind the last window, with a fake of what Kineto does at each call."""

import os
import sys
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.demos.boring_classes import BoringModel
from profiled_runs import Run, fit

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.adapters import cupti
from lightning_gpuprof.adapters.cupti import VARIABLE, CuptiTeardown, uses_cuda_graphs
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.capture.cycles import CycleRunner
from lightning_gpuprof.capture.recordings import Recordings
from lightning_gpuprof.config import GpuProfConfig
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.schedule import Schedule


class Kineto:
    """Attaches CUPTI, and detaches it in the program's next CUDA call, as Kineto decides it."""

    def __init__(self, environment):
        self.environment = environment
        self.attached = self.has_callbacks = self.waits = False
        self.log = []
        self.with_gpu_events = []

    @property
    def detaches(self):
        return self.environment.get(VARIABLE) == "1"

    def prepare(self):
        self.log.append("prepare")
        first = not self.attached and not self.log[:-1]
        self.has_callbacks |= first or self.detaches
        self.attached = True

    def start(self):
        self.log.append("start")

    def stop(self):
        self.log.append("stop")
        self.with_gpu_events.append(self.has_callbacks)
        self.waits = self.detaches

    def cuda_call(self):
        if self.waits:
            self.waits = self.attached = False
            self.has_callbacks = not self.detaches
            self.log.append("detached")

    def begin_step(self, number):
        self.cuda_call()

    def end_step(self):
        self.cuda_call()


class Rig:
    """Fits in one process, each with a schedule of its own."""

    def __init__(self, environment=None, *, graphs=False, cuda=(12, 8)):
        self.environment = {} if environment is None else environment
        self.kineto = Kineto(self.environment)
        self.teardown = CuptiTeardown(self.environment, cuda=lambda: cuda, graphs=lambda: graphs)
        self.obstacles = []

    def before_stop(self, last):
        self.kineto.log.append(f"before_stop last={last}")
        obstacle = self.teardown.before_stop(last=last)
        self.obstacles += [obstacle] if obstacle else []

    def fit(self, steps, **numbers):
        numbers = {"wait": 1, "warmup": 1, "active": 1, "repeat": 0} | numbers
        cycles = CycleRunner(
            Schedule(unit="step", **numbers),
            new_trace=lambda: self.kineto,
            on_recorded=lambda finished: None,
            before_stop=self.before_stop,
            now=lambda: 0,
        )
        for number in range(steps):
            cycles.end_step()
            cycles.begin_unit()
            cycles.begin_step(number)
            self.kineto.cuda_call()
        cycles.end_step()
        cycles.close(last=True)
        self.kineto.cuda_call()
        return self


def test_cupti_is_detached_in_the_first_cuda_call_behind_the_last_window():
    rig = Rig().fit(6)
    calls = ["prepare", "start", "before_stop last=True", "stop", "detached"]
    assert rig.kineto.log == calls
    assert not rig.kineto.attached
    assert rig.environment == {VARIABLE: "1"}


def test_between_windows_cupti_stays_attached():
    rig = Rig().fit(8, repeat=1)
    window = ("prepare", "start")
    assert rig.kineto.log == [
        *(*window, "before_stop last=False", "stop"),
        *(*window, "before_stop last=True", "stop", "detached"),
    ]
    assert rig.kineto.with_gpu_events == [True, True]


def test_a_run_that_ends_within_a_window_is_detached_too():
    assert not Rig().fit(2, wait=0, active=9).kineto.attached


def test_later_windows_and_other_profilers_of_the_process_have_their_gpu_events():
    rig = Rig().fit(6).fit(8, repeat=1)
    assert rig.kineto.with_gpu_events == [True, True, True]
    rig.kineto.prepare()
    rig.kineto.stop()
    assert rig.kineto.with_gpu_events[-1]


def test_without_the_variable_a_later_profiler_would_lack_its_gpu_events():
    """Why the variable stays set, and that the fake shows it."""
    rig = Rig().fit(6)
    del rig.environment[VARIABLE]
    rig.kineto.prepare()
    rig.kineto.stop()
    assert rig.kineto.with_gpu_events == [True, False]


@pytest.mark.parametrize("value", ["0", "1"])
@pytest.mark.parametrize("name", [VARIABLE, "DISABLE_CUPTI_LAZY_REINIT"])
def test_what_the_program_has_set_stays_as_it_is(name, value):
    rig = Rig({name: value}).fit(8, repeat=1)
    assert rig.environment == {name: value}
    assert [name in obstacle for obstacle in rig.obstacles] == [True]


def test_a_value_that_the_program_sets_later_is_its_own():
    rig = Rig().fit(6)
    rig.environment[VARIABLE] = "0"
    rig.fit(8, repeat=1)
    assert rig.environment == {VARIABLE: "0"}


@pytest.mark.parametrize(
    ("rig", "reason"),
    [
        ({"cuda": (12, 5)}, "CUDA 12.5"),
        ({"cuda": (11, 8)}, "CUDA 11.8"),
        ({"cuda": None}, "without CUDA"),
        ({"graphs": True}, "CUDA graphs"),
    ],
)
def test_where_it_is_not_safe_cupti_stays_attached_and_the_reason_is_given(rig, reason):
    rig = Rig(**rig).fit(6)
    assert rig.kineto.attached
    assert rig.environment == {}
    assert [reason in obstacle for obstacle in rig.obstacles] == [True]


def test_cuda_graphs_are_known_by_a_graph_or_by_what_torch_compile_was_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch._inductor.config", None)
    assert not uses_cuda_graphs()

    class Graph:
        pass

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    graph = Graph()
    assert uses_cuda_graphs()
    del graph
    assert not uses_cuda_graphs()

    class Backend:
        def __init__(self):
            self.config = {}

    monkeypatch.setattr(torch, "_TorchCompileInductorWrapper", Backend)
    backend = Backend()
    assert not uses_cuda_graphs()
    backend.config = {"triton.cudagraphs": True}
    assert uses_cuda_graphs()
    del backend

    triton = SimpleNamespace(cudagraphs=True)
    config = SimpleNamespace(triton=triton)
    monkeypatch.setitem(sys.modules, "torch._inductor.config", config)
    assert uses_cuda_graphs()
    triton.cudagraphs = False
    assert not uses_cuda_graphs()
    del triton.cudagraphs
    assert uses_cuda_graphs(), "an unknown torch"


def test_the_installed_torch_has_the_names():
    assert hasattr(torch.version, "cuda")
    assert isinstance(torch.cuda.CUDAGraph, type)
    wrapper = torch._TorchCompileInductorWrapper("reduce-overhead", None, None)
    assert wrapper.config["triton.cudagraphs"] is True
    assert uses_cuda_graphs()
    del wrapper
    from torch._inductor import config

    assert config.triton.cudagraphs is False


class Notes:
    """The session of a recording, as far as it shows and writes something."""

    def __init__(self):
        self.notes, self.shown = [], []

    def note(self, name, message):
        self.notes.append(name)

    def inform(self, message):
        self.shown.append(message)


def test_a_program_that_asked_for_it_is_shown_why_it_is_not_done():
    context = Notes()
    teardown = CuptiTeardown({}, cuda=lambda: (12, 6), graphs=lambda: True)
    recordings = Recordings(context, None, None, None, eager=False, teardown=teardown)
    recordings.before_stop(False)
    assert not context.notes
    recordings.before_stop(True)
    assert context.notes == ["cupti-attached"]
    assert context.shown == [
        f"[PROFILE] teardown='on' leaves CUPTI attached to the GPU: {cupti.GRAPHS}."
    ]


@pytest.mark.parametrize("setting", ["auto", "on", "off"])
def test_on_a_cpu_nothing_is_set(tmp_path, setting):
    before = dict(os.environ)
    schedule = ProfilerSchedule(wait=2, warmup=1, active=2, repeat=0, teardown=setting)
    run = Run(fit(tmp_path, schedule, model=BoringModel()))
    assert len(run.cycles) == 1
    assert "cupti-attached" not in run.notes
    assert dict(os.environ) == before


def test_auto_is_off_until_a_device_has_proven_it():
    assert not cupti.PROVEN
    detaching = {
        setting: ProfilerSchedule(teardown=setting)._detaches for setting in ("auto", "on", "off")
    }
    assert detaching == {"auto": False, "on": True, "off": False}
    assert not ProfilerSchedule(teardown="on", capture_range=True)._detaches


def test_the_setting_reaches_the_schedule_and_is_checked():
    (schedule,) = (
        part for part in GpuProfCallback(teardown="on").parts if isinstance(part, ProfilerSchedule)
    )
    assert schedule._detaches
    # YAML reads on and off as booleans.
    assert GpuProfConfig(teardown=True).teardown == "on"
    assert GpuProfConfig(teardown=False).teardown == "off"
    with pytest.raises(ConfigError, match="teardown"):
        GpuProfConfig(teardown="always")
    with pytest.raises(ConfigError, match="teardown"):
        ProfilerSchedule(teardown="always")
