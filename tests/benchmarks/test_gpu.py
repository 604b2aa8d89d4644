"""`make gpu` without a GPU: what it does with parts that pass, fail, hang or lack a package."""

import importlib
import json
import tarfile

import pytest


@pytest.fixture
def gpu(fault_suite, monkeypatch, tmp_path):
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
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
    assert "Part        Outcome" in said
    with tarfile.open(tmp_path / "gpu-fixtures.tar.gz") as archive:
        assert "fails.log" in archive.getnames()


def test_a_part_gets_no_more_time_than_is_left(gpu, monkeypatch, tmp_path):
    gpu.WHOLE_S = 5
    plan_parts(gpu, monkeypatch, late=gpu.Part(("-c", ""), 60))
    assert gpu.main() == 1
    [path] = tmp_path.glob("gpu-*.json")
    assert json.loads(path.read_text())["parts"]["late"]["status"] == "left out: no time"


def test_each_tests_outcome_is_kept_from_the_log_even_of_a_part_that_was_stopped(gpu, tmp_path):
    (tmp_path / "tests.log").write_text(
        "tests/gpu/test_a.py::test_one[x] PASSED     [ 10%]\n"
        "tests/gpu/test_a.py::test_two FAILED        [ 20%]\n"
    )
    assert gpu.figures(tmp_path)["tests"] == {
        "test_a.py::test_one[x]": "passed",
        "test_a.py::test_two": "failed",
    }


def test_an_unknown_part_is_named_and_nothing_runs(gpu, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu.py", "test"])
    assert gpu.main() == 2
    assert "No part is called test. There are: tests, marks" in capsys.readouterr().out
