import io
import os
import subprocess

from lightning_gpuprof.callbacks.capture.trace_finisher import TraceFinisher, spawn


class FakeProcess:
    def __init__(self, path):
        self.path = path
        self.returncode = None
        self.stderr = io.BytesIO(b"Traceback\nTraceError: bad file\n")
        self.never_ends = False
        self.killed = False

    def poll(self):
        return self.returncode

    def kill(self):
        self.killed = True

    def wait(self, timeout=None):
        if self.never_ends and not self.killed:
            raise subprocess.TimeoutExpired("x", timeout)
        self.returncode = self.returncode or 0
        return self.returncode


class Starter(list):
    def __call__(self, path):
        self.append(FakeProcess(path))
        return self[-1]


def test_traces_are_finished_one_after_the_other():
    started = Starter()
    finisher = TraceFinisher(start=started)
    finisher.submit("a")
    finisher.submit("b")
    assert [p.path for p in started] == ["a"]
    started[0].returncode = 0
    finisher.poll()
    assert [p.path for p in started] == ["a", "b"]
    assert finisher.wait(10) == []
    assert finisher.failures() == {}


def test_waiting_is_bounded_and_says_what_still_runs():
    started = Starter()
    finisher = TraceFinisher(start=started)
    finisher.submit("a")
    started[0].never_ends = True
    finisher.submit("b")
    assert finisher.wait(0.5) == ["a", "b"]
    finisher.start_all()
    assert [p.path for p in started] == ["a", "b"]


def test_once_training_is_over_what_is_not_done_begins_anew_and_steps_back_no_more():
    low, high = Starter(), Starter()
    finisher = TraceFinisher(start=low, start_now=high)
    finisher.submit("a")
    finisher.submit("b")
    low[0].never_ends = True
    finisher.hurry()
    assert low[0].killed
    assert finisher.wait(10) == []
    assert [p.path for p in low] == ["a"]
    assert [p.path for p in high] == ["a", "b"]
    assert finisher.failures() == {}


def test_what_has_ended_is_not_begun_anew():
    low, high = Starter(), Starter()
    finisher = TraceFinisher(start=low, start_now=high)
    finisher.submit("a")
    low[0].returncode = 0
    finisher.hurry()
    assert (low[0].killed, high) == (False, [])


def test_a_failure_is_told_once_by_its_last_line():
    started = Starter()
    finisher = TraceFinisher(start=started)
    finisher.submit("a")
    started[0].returncode = 1
    finisher.poll()
    assert finisher.failures() == {"a": "TraceError: bad file"}
    assert finisher.failures() == {}


def test_the_process_is_this_packages_own_command_at_the_lowest_priority(tmp_path):
    process = spawn(str(tmp_path / "missing.json"))
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == 19
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert b"missing.json is no plain trace file" in said
