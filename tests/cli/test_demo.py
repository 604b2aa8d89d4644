import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from lightning_gpuprof import cli
from lightning_gpuprof.cli import demo

EXAMPLE = Path(__file__).parents[2] / "example_projects" / "char_lm"


@pytest.fixture
def started(monkeypatch):
    """The commands that are started, which end with the status in the list."""
    commands, status = [], [0]

    def start(command, check):
        commands.append(command)
        return subprocess.CompletedProcess(command, status[0])

    monkeypatch.setattr(demo.subprocess, "run", start)
    return commands, status


def test_the_demo_writes_its_program_and_runs_it_there(tmp_path, started):
    commands, _ = started
    folder = tmp_path / "new" / "folder"

    assert cli.main(["demo", "--folder", str(folder), "--steps", "100"]) == 0

    program = str(folder / "char_lm" / "demo.py")
    runs = str(folder / "runs")
    assert commands == [[sys.executable, program, "--runs", runs, "--steps", "100"]]
    written = {path.name: path.read_text() for path in (folder / "char_lm").iterdir()}
    assert written == {path.name: path.read_text() for path in EXAMPLE.glob("*.py")}


def test_what_somebody_changed_in_the_program_stays(tmp_path, started):
    (tmp_path / "char_lm").mkdir()
    (tmp_path / "char_lm" / "before.py").write_text("mine = True")

    cli.main(["demo", "--folder", str(tmp_path)])

    assert (tmp_path / "char_lm" / "before.py").read_text() == "mine = True"
    assert (tmp_path / "char_lm" / "text.py").exists()


def test_a_demo_that_fails_is_status_1(tmp_path, started):
    commands, status = started
    status[0] = -9
    assert cli.main(["demo", "--folder", str(tmp_path)]) == 1
    assert len(commands) == 1


def test_a_package_that_the_demo_lacks_is_named(tmp_path, started, monkeypatch, capsys):
    commands, _ = started
    monkeypatch.setattr(
        demo, "find_spec", lambda name: None if name == "tensorboard" else find_spec(name)
    )
    assert cli.main(["demo", "--folder", str(tmp_path)]) == 2
    assert "pip install tensorboard" in capsys.readouterr().err
    assert not commands
    assert not any(tmp_path.iterdir())
