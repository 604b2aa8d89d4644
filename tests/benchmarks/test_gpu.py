"""`make gpu` without a GPU: what it does with parts that pass, fail, hang or lack a package."""

import importlib
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

SOME_TESTS = """
import pytest

ended = []

@pytest.fixture
def value(tmp_path):
    assert tmp_path.is_dir()
    yield 1.0
    ended.append(True)

@pytest.mark.parametrize("scale", [1, 2])
@pytest.mark.parametrize(("name", "shift"), [("b", 0.0)], ids=["b"])
def test_of_all_kinds(value, scale, name, shift, write_text):
    value = value * scale + shift
    assert value == pytest.approx(1.04, rel=0.05)

def test_the_fixture_was_ended():
    assert ended == [True, True]

@pytest.mark.skipif(True, reason="not here")
def test_elsewhere():
    raise AssertionError

def test_of_a_package():
    pytest.importorskip("no_such_package")
    raise AssertionError
"""


@pytest.fixture
def gpu(fault_suite, monkeypatch, tmp_path):
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    gpu.FETCH = gpu.fetch_missing
    monkeypatch.setattr(gpu, "fetch_missing", lambda site: None)
    facts = {"gpu": "a card", "driver": "1", "packages": {"torch": "2"}}
    monkeypatch.setattr(gpu, "machine", lambda: facts)
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    monkeypatch.setenv("OUT", str(tmp_path))
    return gpu


def plan_parts(gpu, monkeypatch, **parts):
    monkeypatch.setattr(gpu, "parts", lambda work: parts)


def test_a_part_that_fails_hangs_or_cannot_run_stops_no_other(gpu, monkeypatch, tmp_path, capsys):
    plan_parts(
        gpu,
        monkeypatch,
        fails=gpu.Part(("-c", "print('why it failed'); raise SystemExit(3)"), 60),
        lacks=gpu.Part(("-c", ""), 60, ("no_such_module",)),
        passes=gpu.Part(("-c", "print('fine')"), 60),
    )
    assert gpu.main() == 2
    [path] = tmp_path.glob("gpu-*.json")
    parts = json.loads(path.read_text())["parts"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "fails": "failed (3)",
        "lacks": "left out: no no_such_module",
        "passes": "passed",
    }
    assert parts["fails"]["tail"] == ["why it failed"]
    said = capsys.readouterr().out
    assert re.search(r"^Part +Outcome", said, re.MULTILINE)
    with tarfile.open(tmp_path / "gpu-fixtures.tar.gz") as archive:
        assert "fails.log" in archive.getnames()


def test_a_part_gets_no_more_time_than_is_left(gpu, monkeypatch, tmp_path):
    gpu.WHOLE_S = gpu.time.monotonic() - gpu.BEGUN + 5
    plan_parts(gpu, monkeypatch, late=gpu.Part(("-c", ""), 60))
    assert gpu.main() == 1
    [path] = tmp_path.glob("gpu-*.json")
    assert json.loads(path.read_text())["parts"]["late"]["status"] == "left out: no time"


def test_each_tests_outcome_is_kept_from_the_log_even_of_a_part_that_was_stopped(gpu, tmp_path):
    (tmp_path / "tests-a.log").write_text(
        "tests/gpu/test_a.py::test_one[x] PASSED     [ 10%]\n"
        "tests/gpu/test_a.py::test_two FAILED        [ 20%]\n"
    )
    (tmp_path / "tests-b.log").write_text(
        "tests/gpu/test_b.py::test_one ...\nit printed this\n"
        "tests/gpu/test_b.py::test_one PASSED\n"
        "tests/gpu/test_b.py::test_hangs ...\nTimeout (0:01:00)!\n"
    )
    assert gpu.figures(tmp_path)["tests"] == {
        "test_a.py::test_one[x]": "passed",
        "test_a.py::test_two": "failed",
        "test_b.py::test_one": "passed",
        "test_b.py::test_hangs": "not ended",
    }


def test_the_failures_of_a_part_are_kept_whole_and_handed_over_at_once(gpu, monkeypatch, tmp_path):
    said = "=== FAILURES ===\n__ test_one __\nwhy\n" + "more\n" * 100
    out = f"from pathlib import Path; assert list(Path({str(tmp_path)!r}).glob('gpu-*.json'))"
    plan_parts(
        gpu,
        monkeypatch,
        fails=gpu.Part(("-c", f"print({said!r}); raise SystemExit(1)"), 60),
        sees_the_results_so_far=gpu.Part(("-c", out), 60),
    )
    assert gpu.main() == 1
    [path] = tmp_path.glob("gpu-*.json")
    parts = json.loads(path.read_text())["parts"]
    assert parts["fails"]["failures"][:2] == ["__ test_one __", "why"]


def test_a_network_that_swallows_everything_costs_no_more_than_its_share(gpu, monkeypatch):
    asked = []
    clock = iter(range(0, 10**6, 25))
    monkeypatch.setattr(gpu.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(gpu, "absent", list)
    monkeypatch.setattr(gpu, "put_on_path", lambda folder: None)
    monkeypatch.setattr(gpu, "said", lambda command, seconds: asked.append(seconds))
    gpu.FETCH(Path("site"))
    assert asked == [15]


def test_without_pytest_the_tests_run_all_the_same(gpu, monkeypatch, tmp_path):
    test = tmp_path / "test_some.py"
    test.write_text(SOME_TESTS)
    without = [sys.executable, str(gpu.ROOT / "benchmarks" / "without_pytest.py"), str(test)]
    done = subprocess.run(without, capture_output=True, text=True)
    assert done.returncode == 1
    outcomes = re.findall(r"::(\S+) (PASSED|FAILED|SKIPPED)", done.stdout)
    assert outcomes == [
        ("test_of_all_kinds[b-1]", "PASSED"),
        ("test_of_all_kinds[b-2]", "FAILED"),
        ("test_the_fixture_was_ended", "PASSED"),
        ("test_elsewhere", "SKIPPED"),
        ("test_of_a_package", "SKIPPED"),
    ], done.stdout + done.stderr
    assert "FAILURES" in done.stdout
    assert "assert value == pytest.approx(1.04, rel=0.05)" in done.stdout


def test_a_round_that_would_take_too_long_is_left_out(fault_suite, monkeypatch):
    marks = importlib.import_module("gpu_marks")
    now = iter(range(0, 10**6, 10))
    monkeypatch.setattr(marks.time, "monotonic", lambda: next(now))
    costs = {"bare": 5.0, "marks": 7.0}
    rows = marks.compare(("marks",), 1, until=55, measure=lambda name, folder, *shape: costs[name])
    assert rows["rounds"] == 2
    assert rows["marks added_us"]["median"] == 2.0


def test_a_model_that_fails_is_a_row_with_its_traceback(fault_suite, monkeypatch):
    memory = importlib.import_module("gpu_memory")
    monkeypatch.setattr(memory, "examine", lambda *_: {}["missing"])
    row = memory.examined(None, "mlp")
    assert not row["passed"]
    assert row["failure"][-1] == "KeyError: 'missing'"


def test_the_wheels_for_a_machine_without_a_network_are_all_that_may_be_fetched(gpu):
    text = (Path(gpu.__file__).parents[1] / "Makefile").read_text()
    [names] = re.findall(r"for name in (.*); do", text)
    assert set(names.split()) == set(gpu.FETCHED)


def test_an_unknown_part_is_named_and_nothing_runs(gpu, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu.py", "test"])
    assert gpu.main() == 2
    assert "No part is called test. There are: tests-timing, " in capsys.readouterr().out
