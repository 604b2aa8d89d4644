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
        rows = marks.toggle(marks.TINY, float("inf"), turns, accelerator="cpu")
    assert list(rows) == [marks.DEFAULT, "DeferredLoss"]
    assert [row["outside_us"]["count"] for row in rows.values()] == [12, 6]
    assert len(waits) == 3 * (2 * (4 + 50 // 25) + 1)  # each block begins with an idle device


def test_of_the_tiny_step_the_variants_that_there_is_time_for_are_measured(marks, small):
    rows = marks.toggle(marks.TINY, 0.0, ("empty callback", "PhaseTimer"), accelerator="cpu")
    assert list(rows) == []


AFTER = {"step_ms": [7.0, 7.1, 7.2], "kernels": [735, 735]}


def figures(marks, outside_us=9.0, added_us=10.0, after=AFTER):
    row = {"outside_us": {"median": outside_us}}
    long = {"bare_us": 1e4, "added_us": {"median": added_us}}
    tiny = {marks.DEFAULT: row, "DeferredLoss": row}
    return {"after_recording": after, marks.TINY: tiny, marks.LONG: {marks.DEFAULT: long}}


@pytest.mark.parametrize(
    ("outside_us", "added_us", "beyond"),
    [(9.0, 10.0, 0), (39.0, 10.0, 1), (41.0, 10.0, 2), (9.0, 51.0, 1)],
)
def test_steps_are_judged_by_what_is_added(marks, outside_us, added_us, beyond):
    assert marks.judge(figures(marks, outside_us, added_us)) == beyond


def test_what_cannot_be_measured_stops_no_other_and_keeps_no_limit(marks, monkeypatch):
    def fails():
        raise RuntimeError("CUDA error: unspecified")

    monkeypatch.setattr(marks, "after_recording", fails)
    monkeypatch.setattr(marks, "toggle", lambda kind, until: figures(marks)[kind])
    monkeypatch.setattr("sys.argv", ["gpu_marks.py"])
    assert marks.main() == 3  # what failed, and its two figures


@pytest.mark.parametrize(
    ("after", "beyond"),
    [
        ({"step_ms": [7.0, 8.8, 9.1], "kernels": [735, 735]}, 1),
        ({"step_ms": [7.0, 7.1, 7.2], "kernels": [735, 0]}, 1),
        ({"failure": "no device"}, 3),  # itself, and two that were not measured
    ],
)
def test_steps_after_a_recording_cost_what_they_cost_before(marks, after, beyond):
    assert marks.judge(figures(marks, after=after)) == beyond
