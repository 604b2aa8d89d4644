import cProfile
import sys

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
