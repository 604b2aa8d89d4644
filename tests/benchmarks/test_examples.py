"""The example projects' figures: what is kept of a script that fails, and where figures are put."""

import importlib
import json

import pytest

README = """# An example

<!-- measured: written by benchmarks/examples.py --write -->
a CPU's
<!-- end of measured -->

The end.
"""


@pytest.fixture
def examples(fault_suite):
    return importlib.import_module("examples")


def project(tmp_path, monkeypatch, examples, before, after="print('12 per second')"):
    folder = tmp_path / "projects" / "made"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text(before)
    (folder / "after.py").write_text(after)
    (folder / "README.md").write_text(README)
    monkeypatch.setattr(examples, "EXAMPLES", folder.parent)
    monkeypatch.setattr(examples, "ROOT", tmp_path)
    monkeypatch.setattr(examples, "NAMES", ["made"])
    monkeypatch.setattr(examples, "gpu", lambda: "A CARD")
    monkeypatch.setattr("sys.argv", ["", "--rounds", "1", "--json", str(tmp_path / "found.json")])
    return folder


def test_what_was_measured_on_a_gpu_stands_behind_a_cpus_figures(examples, monkeypatch, tmp_path):
    folder = project(tmp_path, monkeypatch, examples, "print('3 per second')")
    assert examples.main() == 0
    found = tmp_path / "found.json"
    (tmp_path / "gpu.json").write_text(json.dumps({"examples": json.loads(found.read_text())}))
    for source in (found, tmp_path / "gpu.json", found):  # again and again, and there is one
        monkeypatch.setattr("sys.argv", ["", "--from", str(source), "--write"])
        assert examples.main() == 0
    text = (folder / "README.md").read_text()
    parts = text.split("<!-- end of measured -->\n")
    assert len(parts) == 3
    assert "a CPU's" in parts[0]
    assert "On an A CARD with " in parts[1]
    assert "```text\n3 per second\n```" in parts[1]
    assert "| the whole script | 0." in parts[1]
    assert parts[2] == "\nThe end.\n"


def test_a_script_that_fails_is_told_and_stops_no_other(examples, monkeypatch, tmp_path, capsys):
    folder = project(tmp_path, monkeypatch, examples, "raise SystemExit('no such device')")
    assert examples.main() == 1
    found = json.loads((tmp_path / "found.json").read_text())["examples"]["made"]
    assert found["failure"] == ["before.py failed (1):", "no such device"]
    monkeypatch.setattr("sys.argv", ["", "--from", str(tmp_path / "found.json"), "--write"])
    assert examples.main() == 0
    assert (folder / "README.md").read_text() == README
