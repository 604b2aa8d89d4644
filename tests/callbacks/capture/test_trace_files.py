from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from lightning_gpuprof.callbacks.capture.cycles import Recorded
from lightning_gpuprof.callbacks.capture.patience import Patience
from lightning_gpuprof.callbacks.capture.trace_files import TraceFiles


class Finisher:
    """Needs so many seconds for all; leaves what the real one would."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.now_ns = 0
        self.waits = []
        self.hurried = False
        self.room, self.rooms = True, []

    def submit(self, path):
        for suffix in (".gz", ".gz.analysis.json", ".gz.drawing", ".gz.drawing.7.part"):
            open(path + suffix, "w").close()

    def wait(self, timeout_s):
        self.waits.append(timeout_s)
        spent = min(self.seconds, timeout_s)
        self.seconds -= spent
        self.now_ns += int(spent * 1e9)
        return ["rank0-cycle0.pt.trace.json"] if self.seconds else []

    def hurry(self):
        self.hurried = True

    def make_room(self, timeout_s):
        self.rooms.append(timeout_s)
        return self.room

    def leave(self):
        self.left = True

    def failures(self):
        return {}


@pytest.fixture
def make(tmp_path):
    def files(finisher, **options):
        output = SimpleNamespace(
            run_dir=str(tmp_path),
            rank=0,
            session=0,
            step=5,
            write=lambda record: None,
            flush=lambda: None,
        )
        options = {"keep": None, "shrinkers": "", "patience": Patience()} | options
        return TraceFiles(output, finisher, now=lambda: finisher.now_ns, **options)

    return files


@pytest.mark.parametrize(
    ("seconds", "timeout_s", "waits", "said"),
    [(1, 30, [1], False), (10, 30, [1, 29], True), (10, 1, [1, 0], False)],
)
def test_a_long_wait_at_the_end_is_said(make, caplog, seconds, timeout_s, waits, said):
    finisher = Finisher(seconds)
    with caplog.at_level("INFO", logger="lightning_gpuprof"):
        make(finisher).wait(timeout_s)
    assert finisher.waits == waits
    assert ("29 s at most" in caplog.text) is said
    assert finisher.hurried is said


def test_ctrl_c_ends_the_wait_for_an_analysis_and_nothing_else(make, monkeypatch):
    finisher = Finisher(10)
    monkeypatch.setattr(finisher, "hurry", Mock(side_effect=KeyboardInterrupt))
    make(finisher).wait(30)
    assert finisher.waits == [1, 0]
    assert finisher.left


def test_of_fits_in_a_row_the_first_alone_waits_and_a_later_one_after_a_while(make):
    patience, waits = Patience(), []
    for begun_s in (0, 15, 200, 220):
        finisher = Finisher(8)
        finisher.now_ns = begun_s * 10**9
        make(finisher, patience=patience).wait(None)
        waits.append((finisher.now_ns // 10**9 - begun_s, finisher.left))
    assert waits == [(8, True), (0, True), (8, True), (0, True)]


@pytest.mark.parametrize(
    ("room", "rooms"), [(True, [1.0]), (False, [1.0, 29.0])], ids=["room", "none"]
)
def test_who_waits_no_longer_makes_room_first_for_what_it_leaves(make, caplog, room, rooms):
    finisher = Finisher(8)
    finisher.room = room
    with caplog.at_level("INFO", logger="lightning_gpuprof"):
        make(finisher).wait(0.0)
    assert finisher.rooms == rooms
    assert ("earlier fits' traces, 29 s at most" in caplog.text) is not room


def test_a_given_time_to_wait_is_taken_by_each_fit(make):
    patience = Patience()
    for _ in range(2):
        finisher = Finisher(8)
        make(finisher, patience=patience).wait(20)
        assert finisher.waits == [1, 19]


def test_a_trace_that_was_there_when_the_fit_ended_costs_the_next_fit_nothing(make):
    patience = Patience()
    make(Finisher(0), patience=patience).wait(None)
    assert patience.left(0)


def test_a_trace_goes_with_all_that_was_made_of_it(make, tmp_path):
    trace = SimpleNamespace(export=lambda path: open(path, "w").close())
    files = make(Finisher(0), keep=1)
    for cycle in range(2):
        files.save(Recorded(cycle, 0, 0, trace, stop_ns=0, whole=True))
    left = {path.name for path in (tmp_path / "plugins" / "gpuprof").iterdir()}
    assert {name.split(".")[0] for name in left} == {"rank0-cycle1"}


def test_a_trace_that_kineto_did_not_write_is_no_missing_file(make):
    silent = SimpleNamespace(export=lambda path: None)
    with pytest.raises(OSError, match="the disk may be full"):
        make(Finisher(0)).save(Recorded(0, 0, 0, silent, stop_ns=0, whole=True))
