"""Looks at unseen programs in forks: what one of them leaves undone holds none of the others up."""

import argparse
import importlib
import os
import signal
import subprocess
from types import SimpleNamespace

import pytest


@pytest.fixture
def forks(fault_suite, monkeypatch):
    monkeypatch.syspath_prepend(str(fault_suite.parent / "unseen"))
    return importlib.import_module("forks")


def test_a_look_that_dies_in_its_training_starves_none_that_follow(forks, monkeypatch, tmp_path):
    read, write = os.pipe()

    def dies(run):
        if os.fork() == 0:  # a data worker outlives it for a while
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.kill(os.getpid(), signal.SIGKILL)

    programs = {"dies": dies, "trains": lambda run: (tmp_path / "trained").touch()}
    monkeypatch.setattr(
        forks, "_imported", lambda name, **_: SimpleNamespace(STEPS=1, main=programs[name])
    )
    try:
        first = forks.begin_look("dies", tmp_path, tmp_path / "turn")
        first.join()
        second = forks.begin_look("trains", tmp_path, tmp_path / "turn")
        second.join(20)
        waits = second.is_alive()
        second.kill()
        second.join()
    finally:
        os.close(write)
        os.close(read)
    assert (first.exitcode, waits, second.exitcode) == (-signal.SIGKILL, False, 0)
    assert (tmp_path / "trained").exists()


def test_a_look_that_left_no_console_is_noted_and_the_next_one_follows(
    forks, monkeypatch, tmp_path
):
    run = importlib.import_module("run")
    program = tmp_path / "programs"
    program.mkdir()
    for name in ("one", "two"):
        (program / f"{name}.py").write_text('"""cause: none. accept: none"""')
    monkeypatch.setitem(run.SETS, "ninth", (program, "results.json"))
    dead = SimpleNamespace(exitcode=-9, join=lambda *_: None, is_alive=lambda: False)
    monkeypatch.setattr(run.forks, "begin_look", lambda *_: dead)

    def unreadable(case, root):
        raise subprocess.CalledProcessError(1, "report")

    monkeypatch.setattr(run, "reread", unreadable)
    args = argparse.Namespace(
        set="ninth", cases=[], half=None, budget=60.0, pairs=0, keep=None,
        runs=tmp_path / "runs", results=tmp_path / "results.json",
    )  # fmt: skip
    state = {"cases": {}}
    run.both(args, state)
    for name in ("one", "two"):
        assert "exit -9" in state["cases"][name]["look_failed"]
