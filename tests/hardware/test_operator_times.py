"""What calls take on this machine: asked once in a child process, and stored for each CPU."""

import subprocess
import sys
from types import SimpleNamespace

import msgspec
import pytest

from lightning_gpuprof.hardware import operator_times as module
from lightning_gpuprof.hardware.operator_times import Machine, cache_folder, operator_times
from lightning_gpuprof.hardware.processor import processor_name
from lightning_gpuprof.records.operator_times import (
    OperatorInputs,
    OperatorTimes,
    TimingReply,
    TimingRequest,
)

HERE = Machine("a CPU", 2, "2.13.0")
MM = OperatorInputs("aten::mm", ([8, 8], [8, 8]), ("float", "float"))
ADD = OperatorInputs("aten::add", ([8], [8], []), ("float", "float", "Scalar"), (), ("", "", "1"))
TIMES = OperatorTimes(1_000, 1_000, 2_000, 9_000, 1_000)


@pytest.fixture
def child(monkeypatch, tmp_path):
    """A machine whose child process answers with `answers`; `asked` has what it was asked."""
    state = SimpleNamespace(
        answers={MM.key: TIMES}, asked=[], torch="2.13.0", error=None, waited=0.1
    )

    def run(command, *, input, env, **options):
        request = msgspec.json.decode(input, type=TimingRequest)
        state.asked.append([call.name for call in request.calls])
        assert command[0] == sys.executable
        assert env["CUDA_VISIBLE_DEVICES"] == ""
        if state.error is not None:
            raise state.error
        times = tuple(state.answers.get(call.key) for call in request.calls)
        reply = TimingReply(state.torch, times, state.waited)
        return SimpleNamespace(stdout=msgspec.json.encode(reply))

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(module, "processor_name", lambda: "a CPU")
    monkeypatch.setattr(module, "version", lambda name: "2.13.0")
    monkeypatch.setattr(subprocess, "run", run)
    return state


def test_a_call_is_timed_once_and_known_ever_after(child):
    assert operator_times(HERE, [MM]) == {}
    assert operator_times(HERE, [MM, ADD, MM], measure=True) == {MM.key: TIMES}
    # That the addition cannot be timed is known too.
    assert operator_times(HERE, [MM, ADD], measure=True) == {MM.key: TIMES}
    assert child.asked == [["aten::mm", "aten::add"]]
    assert operator_times(HERE, [MM]) == {MM.key: TIMES}
    (file,) = cache_folder().iterdir()
    assert file == HERE.cache_file


@pytest.mark.parametrize(
    "machine",
    [Machine("another CPU", 2, "2.13.0"), Machine("a CPU", 2, "2.12.0")],
)
def test_nothing_is_timed_for_another_machine(child, machine):
    assert operator_times(machine, [MM], measure=True) == {}
    assert not child.asked


def test_nothing_is_timed_without_torch(child, monkeypatch):
    def missing(name):
        raise module.PackageNotFoundError

    monkeypatch.setattr(module, "version", missing)
    assert operator_times(HERE, [MM], measure=True) == {}
    assert not child.asked


@pytest.mark.parametrize(
    "failure",
    [
        {"error": subprocess.TimeoutExpired("python", 30)},
        {"error": subprocess.CalledProcessError(1, "python")},
        {"error": OSError()},
        {"torch": "2.14.0"},
    ],
)
def test_a_child_that_fails_leaves_the_times_unknown(child, failure):
    vars(child).update(failure)
    assert operator_times(HERE, [MM], measure=True) == {}
    assert not cache_folder().exists()


def test_times_that_other_programs_disturbed_are_not_stored_and_those_of_threads_not_used(child):
    child.waited = 0.11
    alone = Machine("a CPU", 1, "2.13.0")
    assert operator_times(alone, [MM], measure=True) == {MM.key: TIMES}
    assert operator_times(alone, [MM]) == {}
    assert operator_times(HERE, [MM], measure=True) == {}


def test_a_damaged_file_is_measured_anew(child):
    operator_times(HERE, [MM], measure=True)
    HERE.cache_file.write_text('{"a": 3}')
    assert operator_times(HERE, [MM], measure=True) == {MM.key: TIMES}
    assert len(child.asked) == 2


def test_a_folder_that_cannot_be_written_to_costs_the_time_alone(child, tmp_path):
    (tmp_path / "lightning_gpuprof").write_text("")
    assert operator_times(HERE, [MM], measure=True) == {MM.key: TIMES}


def test_the_oldest_calls_are_forgotten(child, monkeypatch):
    monkeypatch.setattr(module, "MOST_KEPT", 1)
    operator_times(HERE, [ADD], measure=True)
    operator_times(HERE, [MM], measure=True)
    operator_times(HERE, [ADD], measure=True)
    assert child.asked == [["aten::add"], ["aten::mm"], ["aten::add"]]


@pytest.mark.parametrize(
    ("platform", "variable", "path"),
    [
        ("linux", "XDG_CACHE_HOME", "lightning_gpuprof"),
        ("win32", "LOCALAPPDATA", "lightning_gpuprof"),
        ("darwin", "HOME", "Library/Caches/lightning_gpuprof"),
    ],
)
def test_each_system_has_its_folder_of_caches(monkeypatch, tmp_path, platform, variable, path):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setenv(variable, str(tmp_path))
    assert cache_folder() == tmp_path / path


def test_the_processor_has_the_name_that_its_vendor_gives(tmp_path):
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nmodel name : Some CPU @ 2 GHz\n")
    assert processor_name(str(path)) == "Some CPU @ 2 GHz"
