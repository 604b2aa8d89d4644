"""`make gpu` without a GPU: what it does with parts that pass, fail, hang or lack a package."""

import importlib
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest


@pytest.fixture
def gpu(fault_suite, monkeypatch, tmp_path):
    gpu = importlib.import_module("gpu")
    monkeypatch.setattr(gpu, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(gpu, "has_gpu", lambda: True)
    monkeypatch.setattr(gpu, "unpack_missing", lambda site: None)
    facts = {"gpu": "a card", "driver_answers": True, "driver": "1", "versions": {"torch": "2"}}
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
    with tarfile.open(path.with_name(f"{path.stem}-fixtures.tar.gz")) as archive:
        assert "fails.log" in archive.getnames()


def test_each_tests_outcome_is_kept_from_the_log_even_of_a_part_that_was_stopped(gpu, tmp_path):
    (tmp_path / "tests-a.log").write_text(
        "tests/gpu/test_a.py::test_one[x] PASSED     [ 10%]\n"
        "tests/gpu/test_a.py::test_two FAILED        [ 20%]\n"
    )
    (tmp_path / "tests-b.log").write_text(
        "tests/gpu/test_b.py::test_one ...\nit printed this\n"
        "tests/gpu/test_b.py::test_one PASSED\n"
        "tests/gpu/test_b.py::test_hangs ...\nTimeout (0:01:00)!\n"
        "=== warnings summary ===\ntests/gpu/test_b.py::test_one\ntests/gpu/test_b.py::test_hangs\n"
    )
    kept = importlib.import_module("_gpu_kept")
    assert kept.figures(tmp_path)["tests"] == {
        "test_a.py::test_one[x]": "passed",
        "test_a.py::test_two": "failed",
        "test_b.py::test_one": "passed",
        "test_b.py::test_hangs": "not ended",
    }


def test_every_file_of_gpu_tests_is_in_one_part(gpu):
    parts = gpu.parts(Path())
    run = [one for part in parts.values() for one in part.arguments if one.startswith("tests/gpu/")]
    assert sorted(run) == [
        str(path.relative_to(gpu.ROOT)) for path in sorted(gpu.ROOT.glob("tests/gpu/test_*.py"))
    ]
    assert set(gpu.ASKED_FOR) < set(parts)


def test_figures_of_a_pretended_device_are_marked_and_kept_out_of_the_results(
    gpu, monkeypatch, tmp_path, capsys
):
    facts = gpu.machine() | {"driver_answers": False}
    monkeypatch.setattr(gpu, "machine", lambda: facts)
    plan_parts(gpu, monkeypatch, passes=gpu.Part(("-c", ""), 60))
    assert gpu.main() == 0
    assert not gpu.RESULTS.exists()
    [path] = tmp_path.glob("*.json")
    assert path.name.startswith("gpu-pretended-")
    assert json.loads(path.read_text())["pretended"] is True
    assert "the device is pretended" in capsys.readouterr().out


HANGS = """
import json, os, time
from pathlib import Path

folder = Path(os.environ["OUT"])
folder.joinpath("pid").write_text(str(os.getpid()))
with open(os.environ["FIGURES"], "a") as file:
    file.write(json.dumps({"name": "measured"}) + chr(10))
time.sleep(600)
"""

ENDED = """
import json, os, sys
from pathlib import Path

sys.path[:0] = [{benchmarks!r}]
import gpu

gpu.RESULTS, gpu.KEEP_EVERY_S = Path({folder!r}) / "results", 0.05
gpu.has_gpu = lambda: True
gpu.unpack_missing = lambda site: None
gpu.machine = lambda: {{"gpu": "a card", "driver_answers": True, "versions": {{}}}}
hangs = {hangs!r}
gpu.parts = lambda work: {{
    "passes": gpu.Part(("-c", ""), 60), "tests-memory": gpu.Part(("-c", hangs), 600)
}}
sys.argv = ["gpu.py"]
raise SystemExit(gpu.main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_was_measured_is_there_though_the_whole_is_ended(gpu, tmp_path, number):
    benchmarks = str(gpu.ROOT / "benchmarks")
    text = ENDED.format(benchmarks=benchmarks, folder=str(tmp_path), hangs=HANGS)
    whole = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.DEVNULL)
    result = wait_for(lambda: measured(tmp_path), whole)
    whole.send_signal(number)
    assert whole.wait(60) == (128 + number if number == signal.SIGTERM else -number)
    assert result["parts"]["passes"]["status"] == "passed"
    assert result["parts"]["tests-memory"]["status"] == "not ended"
    [packed] = tmp_path.glob("gpu-*-fixtures.tar.gz")
    with tarfile.open(packed) as archive:
        assert "passes.log" in archive.getnames()
    part = int((tmp_path / "pid").read_text())
    if number == signal.SIGTERM:
        with pytest.raises(ProcessLookupError):
            os.kill(part, 0)
    else:
        os.kill(part, signal.SIGKILL)


def measured(folder):
    for path in folder.glob("gpu-*.json"):
        found = json.loads(path.read_text())
        if found.get("figures") == [{"name": "measured"}]:
            return found
    return None


def wait_for(ask, process):
    """Ask until there is an answer; a process that ends before it gives none any more."""
    while (found := ask()) is None:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.05)
    return found
