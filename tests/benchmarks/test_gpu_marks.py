"""What `make gpu` measures of the marks' cost, without a GPU: what is held against what."""

import importlib

import pytest


@pytest.fixture
def marks(fault_suite, monkeypatch):
    monkeypatch.delenv("FIGURES", raising=False)
    return importlib.import_module("gpu_marks")


@pytest.fixture
def small(marks, monkeypatch, tmp_path):
    from overhead_variants import KINDS, StepKind

    monkeypatch.chdir(tmp_path)
    shape = StepKind(width=4, layers=1, batch=2, block=25, settled=50, blocks=4, fits=1, steps=5)
    monkeypatch.setitem(KINDS, marks.TINY, shape)


def test_a_tiny_step_is_compared_with_itself_within_a_fit(marks, small):
    waits = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "settler", lambda accelerator: lambda: waits.append(accelerator))
        turns = (marks.DEFAULT, "DeferredLoss", marks.DEFAULT)
        rows = marks.tiny_step(float("inf"), turns, accelerator="cpu")
    assert list(rows) == [marks.DEFAULT, "DeferredLoss"]
    assert [row["outside_us"]["count"] for row in rows.values()] == [12, 6]
    assert len(waits) == 3 * (2 * (4 + 50 // 25) + 1)  # each block begins with an idle device


def test_of_the_tiny_step_the_variants_that_there_is_time_for_are_measured(marks, small):
    rows = marks.tiny_step(0.0, ("empty callback", "PhaseTimer"), accelerator="cpu")
    assert list(rows) == []


def test_the_tiny_step_is_judged_by_what_is_added_outside_computing(marks):
    def figures(added):
        rows = {name: {"outside_us": {"median": added}} for name in (marks.DEFAULT, "DeferredLoss")}
        long = {"bare_us": {"median": 1e4}, "default added_us": {"median": 10.0}}
        after = {"step_ms": [7.0, 7.1, 7.2], "kernels": [735, 735]}
        return {"after_recording": after, "tiny_step": rows, "long_step": long}

    assert [marks.judge(figures(added)) for added in (9.0, 39.0, 41.0)] == [0, 1, 2]


def test_a_round_that_would_take_too_long_is_left_out(marks, monkeypatch):
    now = iter(range(0, 10**6, 10))
    monkeypatch.setattr(marks.time, "monotonic", lambda: next(now))
    costs = {"bare": 5.0, "marks": 7.0}
    rows = marks.compare(("marks",), 1, until=55, measure=lambda name, folder, *shape: costs[name])
    assert rows["rounds"] == 2
    assert rows["marks added_us"]["median"] == 2.0


def test_what_cannot_be_measured_stops_no_other_and_keeps_no_limit(marks, monkeypatch):
    def fails():
        raise RuntimeError("CUDA error: unspecified")

    steps = {"bare_us": {"median": 1e4}, "default added_us": {"median": 10.0}}
    monkeypatch.setattr(marks, "after_recording", fails)
    monkeypatch.setattr(marks, "tiny_step", lambda until: {marks.DEFAULT: {"outside_us": None}})
    monkeypatch.setattr(marks, "compare", lambda *_, **__: steps)
    monkeypatch.setattr("sys.argv", ["gpu_marks.py"])
    assert marks.main() == 5  # what failed with its two figures, and two that were not measured


@pytest.mark.parametrize(
    ("after", "beyond"),
    [
        ({"step_ms": [7.0, 7.1, 7.2], "kernels": [735, 735]}, 0),
        ({"step_ms": [7.0, 8.8, 9.1], "kernels": [735, 735]}, 1),
        ({"step_ms": [7.0, 7.1, 7.2], "kernels": [735, 0]}, 1),
        ({"failure": "no device"}, 3),  # itself, and two that were not measured
    ],
)
def test_steps_after_a_recording_cost_what_they_cost_before(marks, after, beyond):
    row = {"outside_us": {"median": 1.0}}
    tiny = {marks.DEFAULT: row, "DeferredLoss": row}
    long = {"bare_us": {"median": 1e4}, "default added_us": {"median": 1.0}}
    figures = {"after_recording": after, "tiny_step": tiny, "long_step": long}
    assert marks.judge(figures) == beyond
