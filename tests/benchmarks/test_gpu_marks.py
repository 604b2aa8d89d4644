"""What `make gpu` measures of the marks' cost, without a GPU: what is held against what."""

import importlib
import time

import pytest


@pytest.fixture
def marks(fault_suite, monkeypatch):
    monkeypatch.delenv("FIGURES", raising=False)
    return importlib.import_module("gpu_marks")


def test_what_gives_losses_to_a_logger_is_held_against_that_logger_alone(marks):
    costs = {"bare": 500.0, "all": 520.0, marks.LOGGER: 600.0, "DeferredLoss": 607.0}
    rows = marks.compare(
        ("all", marks.LOGGER, "DeferredLoss"),
        1,
        until=0,
        measure=lambda name, folder, *shape: costs[name],
    )
    assert rows["all added_us"]["median"] == 20.0
    assert rows[f"{marks.LOGGER} added_us"]["median"] == 100.0
    assert rows["DeferredLoss added_us"]["median"] == 7.0


def test_a_round_that_would_take_too_long_is_left_out(marks, monkeypatch):
    now = iter(range(0, 10**6, 10))
    monkeypatch.setattr(marks.time, "monotonic", lambda: next(now))
    costs = {"bare": 5.0, "marks": 7.0}
    rows = marks.compare(("marks",), 1, until=55, measure=lambda name, folder, *shape: costs[name])
    assert rows["rounds"] == 2
    assert rows["marks added_us"]["median"] == 2.0


class InstantEvent:
    """An event of a device that is always done."""

    def __init__(self, enable_timing=True):
        self.passed_ns = None

    def record(self, stream=None):
        self.passed_ns = time.perf_counter_ns()

    def query(self):
        return True

    def elapsed_time(self, later):
        return (later.passed_ns - self.passed_ns) / 1e6


def test_marks_are_measured_by_themselves(marks, monkeypatch):
    asked = []
    pretended = {
        "Event": InstantEvent,
        "current_device": lambda: 1,
        "current_stream": asked.append,
        "is_current_stream_capturing": lambda: False,
        "synchronize": lambda: None,
    }
    for name, value in pretended.items():
        monkeypatch.setattr(marks.torch.cuda, name, value)
    monkeypatch.setattr(marks.torch, "zeros", lambda *_, **__: None)
    now_ns = [0]

    def clock():
        now_ns[0] += 1000
        return now_ns[0]

    def raw_calls():
        now_ns[0] += 10**12
        return {}

    monkeypatch.setattr(marks.time, "perf_counter_ns", clock)
    monkeypatch.setattr(marks, "raw_calls", raw_calls)
    rows = marks.alone(count=10)
    assert set(asked) == {1}
    assert rows["record_us_per_mark"] > 0
    assert 0 < rows["calibration_us"] < 1000  # nothing else is counted in


def test_marks_that_cannot_be_measured_stop_no_other_and_keep_no_limit(marks, monkeypatch):
    def fails():
        raise RuntimeError("CUDA error: unspecified")

    steps = {"bare_us": {"median": 1e4}, "default added_us": {"median": 10.0}}
    monkeypatch.setattr(marks, "alone", fails)
    monkeypatch.setattr(marks, "compare", lambda *_, **__: steps)
    monkeypatch.setattr("sys.argv", ["gpu_marks.py"])
    assert marks.main() == 2  # what failed, and DeferredLoss, which was not measured
