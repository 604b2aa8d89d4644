"""The kernel's account of cores and processes, in a folder of the test's own."""

import os
import threading

import pytest

from lightning_gpuprof.recorders.core_use import CoreTimes, Process, core_times, used_between
from lightning_gpuprof.records.facts import CoreUse, Program

PID, TRAINING, SECOND = os.getpid(), 70_001, 1_000_000_000


@pytest.fixture
def proc(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2}, raising=False)
    monkeypatch.setattr(os, "sysconf", lambda name: 100)

    def write(path, text):
        path = tmp_path / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    write(
        "stat",
        "cpu  900 0 0 0 0 0 0 0 0 0\n"
        "cpu0 100 10 20 500 7 1 2 30 0 0\n"
        "cpu1 400 0 0 0 0 0 0 0 0 0\n"
        "cpu2 200 0 0 700 0 0 0 0 0 0\nintr 1 2\n",
    )
    rest = "S {} 1 1 0 -1 0 9 9 9 9 {} {} {} {} 20 0 1 0 {} 99"
    write("7/stat", f"7 (a (b) c) {rest.format(1, 5, 6, 7, 8, 4321)}")
    write(f"self/task/{threading.get_native_id()}/schedstat", "1000 250 3\n")
    (tmp_path / "self" / "task" / "999").mkdir()  # a thread that ends amid the look
    (tmp_path / "8").mkdir()
    return tmp_path


def test_only_the_cores_that_may_be_used_are_counted(proc):
    found = core_times(proc)
    assert (found.cores, found.busy_ns, found.stolen_ns) == (2, 333 * 10**7, 30 * 10**7)
    assert found.processes == {7: Process("a (b) c", 1, 4321, 11 * 10**7, 15 * 10**7)}
    assert found.queued_ns == {threading.get_native_id(): 250}


@pytest.mark.parametrize("missing", ["stat", f"self/task/{threading.get_native_id()}/schedstat"])
def test_a_system_that_keeps_no_account_has_none(proc, missing):
    (proc / missing).unlink()
    assert core_times(proc) is None


def test_a_core_that_the_list_lacks_makes_it_none(proc, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 5})
    assert core_times(proc) is None


def test_this_machine_is_read_where_it_is_linux():
    found = core_times()
    assert found is None or PID in found.processes


def looked(seconds, processes, queued):
    return CoreTimes(seconds * SECOND, 2, seconds * 2 * SECOND, 0, processes, queued)


def test_what_ended_and_was_waited_for_is_the_runs_and_what_is_new_is_counted_whole():
    worker = Process("worker", PID, 1, 4, 0)
    before = looked(0, {
        1: Process("init", 0, 0, 9, 9),
        PID: Process("python", 1, 1, 10, 0),
        50: worker,
        60: Process("other", 1, 1, 100, 0),
        61: Process("gone", 1, 1, 100, 0),
        62: Process("one", 1, 1, 100, 0),
    }, {TRAINING: 5})  # fmt: skip
    after = looked(10, {
        1: Process("init", 0, 0, 9, 9),
        PID: Process("python", 1, 1, 17, 6),  # the worker's 4 and 2 more
        51: Process("worker", PID, 9, 3, 0),
        52: Process("its child", 51, 9, 1, 0),
        60: Process("other", 1, 1, 130, 0),
        62: Process("another", 1, 8, 40, 0),  # the number of one that is gone
        3: Process("kworker", 2, 1, 500, 0),
        63: Process("idle", 1, 1, 0, 0),
    }, {TRAINING: 25, 70_002: 40, 70_003: 1})  # fmt: skip

    used = used_between(before, after, root=PID, thread=TRAINING)

    assert used == CoreUse(
        cores=2,
        wall_ns=10 * SECOND,
        busy_ns=20 * SECOND,
        stolen_ns=0,
        own_ns=7,
        family_ns=6,
        queued_ns=20,
        others_queued_ns=40,
        programs=(Program("another", 40), Program("other", 30)),
    )
    assert used.foreign_cores == pytest.approx(2.0)


def test_ranks_of_one_launcher_are_one_run():
    begun = {40: Process("torchrun", 1, 1, 1, 0), PID: Process("rank", 40, 1, 1, 0)}
    ended = {
        40: Process("torchrun", 1, 1, 2, 0),
        PID: Process("rank", 40, 1, 11, 0),
        41: Process("rank", 40, 1, 20, 0),
    }
    used = used_between(looked(0, begun, {}), looked(1, ended, {}), root=40, thread=TRAINING)
    assert (used.own_ns, used.family_ns, used.programs) == (10, 21, ())
