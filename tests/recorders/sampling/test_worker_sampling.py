import sys
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from msgspec import json

from lightning_gpuprof.recorders.sampling import worker_sampling as sampling
from lightning_gpuprof.recorders.sampling.stack_lines import ThreadPlace
from lightning_gpuprof.recorders.sampling.worker_sampler import read_samples
from lightning_gpuprof.recorders.sampling.worker_sampling import (
    HANDING,
    IDLE_WEIGHT,
    MIN_WAITING,
    WAITING,
    WorkerSampling,
    WorkerStart,
    activity_of_worker,
)
from lightning_gpuprof.records.files import written_whole
from lightning_gpuprof.records.phases import Phase

WORK = (sampling.WORK, ThreadPlace(Phase.DATA_WAIT, "t.py", 3, "decode", "json.loads", "python"))
WAIT, HANDOVER = (WAITING, None), (HANDING, None)


@pytest.fixture
def seen(monkeypatch, tmp_path):
    """Sample what a list says, one after the other."""

    def sampled(found, *, most=100):
        left, now = list(found), SimpleNamespace(ns=0)

        def passes(seconds):
            now.ns += round(seconds * 1e9)
            return not left

        paced = partial(sampling.sample_repeatedly, clock=lambda: now.ns, sleep=passes)
        monkeypatch.setattr(sampling, "sample_repeatedly", paced)
        monkeypatch.setattr(sampling, "activity_of_worker", lambda frame: left.pop(0))
        one = WorkerSampling(str(tmp_path / "0-1-0.json"), 1, init_ns=5)
        stop = SimpleNamespace(wait=passes)
        one.run(stop, interval_s=1.0, max_samples=most)
        (counts,) = read_samples(str(tmp_path))
        return counts, left

    return sampled


def test_work_and_waiting_are_counted_apart(seen):
    counts, _ = seen([WORK, WAIT, WORK, HANDOVER])
    assert (counts.work, counts.waiting, counts.handing, counts.whole) == (2, 1, 1, 4)
    (place,) = counts.lines
    assert (place.file, place.line, place.callee, place.count) == ("t.py", 3, "json.loads", 2)
    assert (counts.start_ns, counts.init_ns) == (None, 5)


def test_what_comes_before_the_first_batch_is_no_waiting(seen):
    counts, _ = seen([None, WAIT, HANDOVER, WORK, WAIT, None])
    assert (counts.work, counts.waiting, counts.handing) == (1, 1, 0)


def test_a_worker_that_only_ever_waits_has_nothing_to_do(seen):
    counts, _ = seen([None, HANDOVER] + [WAIT] * (MIN_WAITING - 1))
    assert counts.whole == 0
    counts, _ = seen([None, HANDOVER] + [WAIT] * MIN_WAITING)
    assert (counts.work, counts.waiting, counts.handing) == (0, MIN_WAITING, 0)
    counts, _ = seen([WAIT] * MIN_WAITING + [WORK])
    assert (counts.work, counts.waiting) == (1, 0)


def test_it_ends_with_its_samples_and_where_there_is_nothing_to_see(seen):
    counts, left = seen([WORK] * 9, most=5)
    assert (counts.work, len(left)) == (5, 4)
    _, left = seen([WAIT] * 90, most=5)
    assert len(left) == 90 - 5 * IDLE_WEIGHT


class Asked:
    """A worker's thread that waits until it is asked, as often as there are requests."""

    def __init__(self, folder, *requests):
        self.folder, self.requests, self.now_ns = folder, list(requests), 0

    def wait(self, seconds):
        self.now_ns += round(1e9 * seconds)
        if seconds != sampling.LOOK_S:
            return False
        if not self.requests:
            return True
        request = self.requests.pop(0)
        if request is not None:
            ask(self.folder, request)
        return False


def ask(folder, request):
    with written_whole(str(folder / sampling.AGAIN_NAME)) as part:
        Path(part).write_bytes(json.encode(request))


@pytest.fixture
def stays(monkeypatch, tmp_path):
    """Let a worker's thread stay while it is asked for samples, of which it takes four each."""

    def run(*requests, before=None, first=0):
        if before is not None:
            ask(tmp_path, before)
        stop = Asked(tmp_path, *requests)
        sleep = stop.wait
        paced = partial(sampling.sample_repeatedly, clock=lambda: stop.now_ns, sleep=sleep)
        monkeypatch.setattr(sampling, "sample_repeatedly", paced)
        monkeypatch.setattr(sampling, "activity_of_worker", lambda frame: WORK)
        WorkerSampling(str(tmp_path / "0-1-0.json"), 1).run_and_stay(
            stop, interval_s=0.1, max_samples=first
        )
        return [
            [lines.whole for lines in read_samples(str(tmp_path), suffix)]
            for suffix in ("", ".capture0", ".capture1")
        ]

    return run


def test_a_worker_that_is_asked_samples_again_into_a_file_of_its_own(stays):
    asked = sampling.SampleAgain(0, 0.4), None, None, sampling.SampleAgain(1, 0.8)
    assert stays(*asked, first=7) == [[7], [4], [8]]


def test_a_request_from_before_the_worker_started_is_none_of_its(stays):
    before = sampling.SampleAgain(0, 0.4)
    assert stays(None, None, before=before) == [[], [], []]
    assert stays(sampling.SampleAgain(1, 0.4), before=before) == [[], [], [4]]


def test_a_worker_that_started_after_the_first_samples_writes_none(stays):
    assert stays(None) == [[], [], []]


def test_sampling_again_ends_with_its_time_however_few_samples_there_are(monkeypatch, tmp_path):
    clock = iter(range(0, 10**12, 10**9))
    one = WorkerSampling(str(tmp_path / "0-1-0.json"), 1)
    monkeypatch.setattr(sampling, "activity_of_worker", lambda frame: None)
    paced = partial(sampling.sample_repeatedly, clock=lambda: 0, sleep=lambda seconds: None)
    monkeypatch.setattr(sampling, "sample_repeatedly", paced)
    stop = SimpleNamespace(wait=lambda seconds: False)
    one.run(stop, interval_s=0.1, max_samples=10**6, seconds=5.0, clock=lambda: next(clock))
    assert next(clock) == 6 * 10**9


def test_a_torn_file_is_left_out(tmp_path):
    (tmp_path / "0-1-0.json").write_text('{"kind": "worker_lines", "wai')
    (tmp_path / "0-1-1.json.77.part").write_text("{}")
    assert list(read_samples(str(tmp_path))) == []


def start(folder, inner=None):
    return WorkerStart(inner, str(folder), "0-1", interval_s=1e6, max_samples=10, asked_ns=0)


def own_threads():
    return [one for one in threading.enumerate() if one.name == sampling.THREAD]


def test_the_threads_end_is_waited_for_and_its_last_samples_written(tmp_path, monkeypatch):
    ends = []
    monkeypatch.setattr(
        sampling, "Finalize", lambda owner, call, args, exitpriority: ends.append(args[0])
    )
    called = []
    start(tmp_path, called.append)(0)
    assert called == [0]
    assert len(own_threads()) == 1
    ends[0]()
    assert not own_threads()
    (counts,) = read_samples(str(tmp_path))
    assert counts.start_ns > 0
    assert counts.init_ns >= 0


def test_a_thread_whose_folder_is_gone_ends_in_silence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sampling, "Finalize", lambda *args, **kwargs: None)
    start(tmp_path / "gone")(0)
    for thread in own_threads():
        thread.join(timeout=10)
    assert not own_threads()
    assert capsys.readouterr().err == ""


def test_other_workers_and_failures_of_ours_are_let_alone(tmp_path, monkeypatch):
    start(tmp_path)(2)
    assert not own_threads()
    monkeypatch.setattr(sampling, "WorkerSampling", None)
    start(tmp_path)(0)
    assert list(tmp_path.iterdir()) == []


TORCH = torch.__file__.replace("__init__.py", "")
LOOP = TORCH + "utils/data/_utils/worker.py"
FETCH = TORCH + "utils/data/_utils/fetch.py"
COLLATE = TORCH + "utils/data/_utils/collate.py"
USER = "/program/data.py"


def look(*functions):
    """Call functions of given files and names, each from the one before; look from the last."""
    found = []
    inner = lambda: found.append(activity_of_worker(sys._getframe(1)))  # noqa: E731
    for file, name in reversed(functions):
        space = {"inner": inner, "__name__": "torch.utils" if file.startswith(TORCH) else "data"}
        exec(compile(f"def {name}():\n    inner()", file, "exec"), space)
        inner = space[name]
    inner()
    return found[0]


def test_a_users_line_within_a_fetch_is_work():
    doing, at = look((LOOP, "_worker_loop"), (FETCH, "fetch"), (USER, "__getitem__"))
    assert doing == sampling.WORK
    assert at[:6] == (Phase.DATA_WAIT, USER, 2, "__getitem__", None, None)
    assert at.entry == "__getitem__"


def test_the_innermost_line_of_the_user_is_named_with_what_it_calls():
    functions = [(FETCH, "fetch"), (USER, "collate"), (USER, "pad"), (COLLATE, "default_collate")]
    _, at = look((LOOP, "_worker_loop"), *functions)
    assert (at.file, at.function, at.callee, at.kind) == (
        USER,
        "pad",
        "torch.default_collate",
        "torch",
    )


def test_waiting_for_work_and_handing_a_batch_over_are_told_apart():
    assert look((LOOP, "_worker_loop"), (LOOP, "get")) == (WAITING, None)
    assert look((LOOP, "_worker_loop"), (LOOP, "put")) == (HANDING, None)
    assert look((LOOP, "_worker_loop")) == (HANDING, None)
    # An iterable dataset's worker makes its iterator while others are started.
    assert look((LOOP, "_worker_loop"), (FETCH, "create_fetcher"))[0] == HANDING


def test_outside_a_workers_loop_there_is_nothing_to_see():
    assert look((FETCH, "fetch"), (USER, "__getitem__")) is None
    assert look((USER, "_worker_loop"), (FETCH, "fetch")) is None
    assert activity_of_worker(None) is None
