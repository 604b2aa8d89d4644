import gc
import io
import os
import subprocess
import sys

import pytest

from lightning_gpuprof.callbacks.capture import trace_finisher
from lightning_gpuprof.callbacks.capture.trace_finisher import TraceFinisher, spawn


@pytest.fixture(autouse=True)
def left(monkeypatch):
    """What other tests left behind is not these ones'."""
    monkeypatch.setattr(trace_finisher, "_LEFT", [])
    return trace_finisher._LEFT


class FakeProcess:
    def __init__(self, path):
        self.path, self.pid = path, ord(path[-1])
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
    started, seconds = Starter(), iter(range(100))
    finisher = TraceFinisher(
        start=started, step_back=lambda pid: None, now=lambda: next(seconds) / 10
    )
    finisher.submit("a")
    started[0].never_ends = True
    finisher.submit("b")
    assert finisher.wait(0.5) == ["a", "b"]
    finisher.leave()
    assert [p.path for p in started] == ["a", "b"]


def leave(path):
    """Leave a process that runs; returns it."""
    started = Starter()
    finisher = TraceFinisher(start=started, step_back=lambda pid: None)
    finisher.submit(path)
    started[0].never_ends = True
    finisher.leave()
    return started[0]


def test_what_is_left_behind_is_kept_until_it_ends(left):
    process = leave("a")
    TraceFinisher().poll()
    assert left == [("a", process)]
    process.returncode = 0
    TraceFinisher().poll()
    assert left == []
    assert process.stderr.closed


def test_of_fits_in_a_row_one_waits_where_more_than_one_that_was_left_still_runs(left):
    first, second = leave("a"), leave("b")
    seconds = iter(range(100))
    finisher = TraceFinisher(start=Starter(), now=lambda: next(seconds) / 10)
    assert finisher.make_room(0.5)  # it leaves nothing
    finisher.submit("c")
    assert not finisher.make_room(0.5)
    first.never_ends = False
    assert finisher.make_room(0.5)
    assert left == [("b", second)]


def test_a_process_that_goes_on_when_its_fit_is_over_gives_no_warning(left, tmp_path, recwarn):
    def waiting(path):
        line = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        return subprocess.Popen(line, stdin=held, stderr=subprocess.PIPE)

    held, end = os.pipe()
    finisher = TraceFinisher(start=waiting, step_back=lambda pid: None)
    finisher.submit(str(tmp_path / "a"))
    finisher.leave()
    del finisher
    gc.collect()
    os.close(held)
    os.close(end)
    left[0][1].wait(60)
    TraceFinisher().poll()
    gc.collect()
    assert left == []
    assert [str(one.message) for one in recwarn] == []


def test_what_a_killed_process_was_writing_is_removed(tmp_path):
    started = Starter()
    finisher = TraceFinisher(start=started)
    finisher.submit(str(tmp_path / "a"))
    (tmp_path / f"a.gz.{ord('a')}.part").touch()
    (tmp_path / "a.gz.7.part").touch()  # another process's
    started[0].returncode = -9
    finisher.poll()
    assert [path.name for path in tmp_path.iterdir()] == ["a.gz.7.part"]


def test_who_has_analysed_a_trace_and_draws_it_is_not_waited_for_nor_begun_anew(tmp_path):
    low = Starter()
    finisher = TraceFinisher(start=low, cpu_share=lambda pid: 0.1, now=lambda: 0.0)
    plain = str(tmp_path / "a")
    finisher.submit(plain)
    low[0].never_ends = True
    (tmp_path / "a.gz.analysis.json").touch()
    assert finisher.wait(10) == []
    finisher.hurry()
    assert not low[0].killed


def test_once_training_is_over_what_is_not_done_begins_anew_and_steps_back_no_more():
    low, high = Starter(), Starter()
    finisher = TraceFinisher(start=low, start_now=high, cpu_share=lambda pid: 0.1)
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


@pytest.mark.parametrize("share", [0.6, None])
def test_what_gets_on_well_or_may_do_so_is_not_begun_anew(share):
    low, high = Starter(), Starter()
    finisher = TraceFinisher(start=low, start_now=high, cpu_share=lambda pid: share)
    finisher.submit("a")
    finisher.hurry()
    assert (low[0].killed, high) == (False, [])


def test_what_is_left_to_itself_steps_back_and_what_starts_later_does_so_too():
    low, high, back = Starter(), Starter(), []
    finisher = TraceFinisher(
        start=low, start_now=high, cpu_share=lambda pid: 0.1, step_back=back.append
    )
    finisher.submit("a")
    finisher.submit("b")
    finisher.hurry()
    finisher.leave()
    assert back == [high[0].pid]
    assert ([p.path for p in low], [p.path for p in high]) == (["a", "b"], ["a"])


def test_ctrl_c_while_it_begins_anew_loses_no_trace():
    low, high = Starter(), Starter()
    finisher = TraceFinisher(start=low, start_now=high, cpu_share=lambda pid: 0.1)
    finisher.submit("a")
    finisher.submit("b")

    def interrupted(timeout=None):
        low[0].stderr.close()
        raise KeyboardInterrupt

    low[0].wait = interrupted
    with pytest.raises(KeyboardInterrupt):
        finisher.hurry()
    assert finisher.wait(10) == []
    assert [p.path for p in high] == ["a", "b"]
    assert finisher.failures() == {}


def test_what_a_stopped_one_was_writing_is_removed(tmp_path):
    plain = str(tmp_path / "a")
    finisher = TraceFinisher(start=Starter(), start_now=Starter(), cpu_share=lambda pid: 0.1)
    finisher.submit(plain)
    for suffix in ("", ".analysis.json", ".drawing"):
        (tmp_path / f"a.gz{suffix}.{ord('a')}.part").touch()
    finisher.hurry()
    assert list(tmp_path.iterdir()) == []


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
    assert b"missing.json is not a plain trace file" in said


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_without_stepping_back_it_is_still_the_first_to_go_where_memory_runs_out(tmp_path):
    process = spawn(str(tmp_path / "missing.json"), keep_priority=True)
    with open(f"/proc/{process.pid}/oom_score_adj") as file:
        assert file.read().strip() == "1000"
    assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    process.communicate(timeout=60)
