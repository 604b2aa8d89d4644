import cProfile
import sys
from types import ModuleType, SimpleNamespace

import pytest

from lightning_gpuprof.runtime import run_start
from lightning_gpuprof.runtime.run_start import call_hooks


class Watches:
    def __call__(self, frame, event, arg):
        """Do nothing at a call."""


def test_what_python_calls_at_every_call_is_named():
    before, hook = call_hooks(), sys.getprofile()
    sys.setprofile(Watches())
    try:
        watched = call_hooks()
    finally:
        sys.setprofile(hook)
    assert "Watches" in watched
    assert call_hooks() == before


def test_cprofile_is_named_while_it_is_on():
    profile = cProfile.Profile()
    before = call_hooks()
    profile.enable()
    try:
        during = call_hooks()
    finally:
        profile.disable()
    assert len(during) == len(before) + 1


@pytest.mark.parametrize(
    ("spec", "file", "argument", "program"),
    [
        (None, "train.py", "train.py", ("train.py",)),
        ("net.train", "train.py", "/a/net/train.py", ("-m", "net.train")),
        ("net.__main__", "train.py", "/a/net/__main__.py", ("-m", "net")),
        (None, None, "train.py", ()),  # a notebook's kernel
        (None, "other.py", "train.py", ()),
    ],
)
def test_the_program_is_named_without_its_arguments(
    monkeypatch, tmp_path, spec, file, argument, program
):
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "other.py"):
        (tmp_path / name).touch()
    main = ModuleType("__main__")
    main.__spec__ = None if spec is None else SimpleNamespace(name=spec)
    if file is not None:
        main.__file__ = str(tmp_path / file)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [argument, "--secret", "1"])
    assert run_start._program() == program
