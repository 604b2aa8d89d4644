"""The programs that no rule was written with: their docstrings, and how a report is judged."""

import importlib.util
import sys

import pytest


@pytest.fixture
def unseen(fault_suite, monkeypatch):
    spec = importlib.util.spec_from_file_location("unseen", fault_suite.parent / "unseen/run.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "unseen", module)  # for its dataclass
    spec.loader.exec_module(module)
    return module


def entry(first, *, cause="why", accept=("data-wait", "@line"), line=None, severity="warning"):
    found = {"id": first, "severity": severity, "line_right": line, "saving_ms": [2.0, 4.0]}
    look = {"step_ms": 10.0, "line_rank": 2, "findings": [found] if first else []}
    return {"cause": cause, "accept": list(accept), "look": look}


def test_each_program_says_its_cause_its_lines_and_what_is_accepted(unseen):
    cases = [unseen.read(path) for path in (unseen.HERE / "programs").glob("*.py")]
    assert len(cases) <= 60
    for case in cases:
        clean = case.name.startswith("clean_")
        assert (not case.cause, not case.accept, not case.lines) == (clean, clean, clean), case


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (entry("data-wait"), True),
        (entry("host-bound"), False),
        (entry("host-bound", line=True), True),
        (entry("host-bound", line=True, accept=["data-wait"]), False),
        (entry(None), False),
    ],
)
def test_a_finding_is_right_by_its_id_or_where_that_is_accepted_by_its_line(unseen, found, right):
    assert unseen.right(found) is right


def test_the_counts_hold_savings_and_alarms(unseen):
    timed = entry("data-wait") | {"pairs": {"slow_ms": [10.0, 12.0], "fixed_ms": [8.0, 8.0]}}
    busy = entry("data-wait") | {"pairs": {"slow_ms": [25.0], "fixed_ms": [8.0]}}
    noisy, quiet = (entry("x", cause="", severity=one) for one in ("warning", "info"))
    entries = {"timed": timed, "busy": busy, "wrong": entry("x"), "noisy": noisy, "quiet": quiet}
    counts = unseen.counts(entries)
    assert (counts["slow"], counts["right_first"], counts["of_these_costly_line"]) == (3, 2, 0)
    generic = unseen.counts({"generic": entry("costly-line", line=True)})
    assert (generic["right_first"], generic["of_these_costly_line"]) == (1, 1)
    assert (counts["savings"], counts["inside"], counts["middle_within_25_percent"]) == (1, 1, 1)
    # The fix takes 3 of 11 ms away, so 2.73 of the recorded 10, and the middle was 3.
    expected = pytest.approx(0.0375, abs=1e-4)
    assert (counts["step_error_median_frac"], counts["step_error_p90_frac"]) == (expected, expected)
    assert (counts["line_among_first_three"], counts["lines_judged"]) == (3, 3)
    assert (counts["clean"], counts["clean_warned"]) == (2, 1)
    assert counts["right_among_first_three"] == 2
    assert "- right_first: 2" in unseen.page({"cases": entries})
