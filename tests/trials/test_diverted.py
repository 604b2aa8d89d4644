"""What a program writes outside of its folder lands in the folder."""

import os
import shutil
from pathlib import Path

import pytest
import torch

from lightning_gpuprof.runtime.wrap import Wrappers
from lightning_gpuprof.trials.diverted import DivertedWrites


@pytest.fixture
def home(tmp_path):
    """A folder of the user's, while another one takes what is written."""
    for name in ("home", "folder"):
        (tmp_path / name).mkdir()
    (tmp_path / "home" / "kept.txt").write_text("old")
    wrappers = Wrappers()
    DivertedWrites(str(tmp_path / "folder")).install(wrappers)
    yield tmp_path / "home"
    wrappers.restore()
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["kept.txt"]
    assert (tmp_path / "home" / "kept.txt").read_text() == "old"


def test_what_is_written_is_read_again(home):
    (home / "kept.txt").write_text("new")
    assert (home / "kept.txt").read_text() == "new"
    with open(home / "log.txt", "a") as file:
        file.write("line")
    assert open(home / "log.txt").read() == "line"


def test_what_is_appended_follows_what_was_there(home):
    with open(home / "kept.txt", "a") as file:
        file.write(" and new")
    assert (home / "kept.txt").read_text() == "old and new"


def test_folders_moves_and_removals_are_diverted_too(home):
    os.makedirs(home / "a" / "b")
    (home / "a" / "b" / "part").write_text("whole")
    os.replace(home / "a" / "b" / "part", home / "kept.txt")
    assert (home / "kept.txt").read_text() == "whole"
    (home / "kept.txt").unlink()
    os.remove(home / "kept.txt")
    (home / "touched").touch()
    shutil.rmtree(home)


def test_torch_saves_and_loads(home):
    torch.save({"a": 1}, home / "model.pt")
    assert torch.load(home / "model.pt") == {"a": 1}


def test_in_the_folder_everything_is_as_ever(home):
    folder = home.parent / "folder"
    (folder / "x").write_text("1")
    os.rename(folder / "x", folder / "y")
    assert Path(folder / "y").read_text() == "1"
    shutil.rmtree(folder / "sub", ignore_errors=True)
    assert sorted(os.listdir(folder)) == ["y"]
