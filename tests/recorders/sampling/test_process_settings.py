"""What a sample changes of the process is put back, whatever happens meanwhile."""

import gc
import os
import sys

import pytest

from lightning_gpuprof.recorders.sampling import pacing
from lightning_gpuprof.recorders.sampling.pacing import no_collection, quick_turns


@pytest.fixture(autouse=True)
def as_on_python_3_11(monkeypatch):
    monkeypatch.setattr(pacing, "_COLLECTS_IN_A_WALK", True)
    before = gc.isenabled(), gc.get_threshold(), sys.getswitchinterval()
    yield
    (gc.enable if before[0] else gc.disable)()
    gc.set_threshold(*before[1])
    sys.setswitchinterval(before[2])


def settings():
    return gc.isenabled(), gc.get_threshold(), sys.getswitchinterval()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_in_a_sample_has_the_usual_settings():
    usual = settings()
    with quick_turns(), no_collection():
        assert settings() != usual
        child = os.fork()
        if not child:
            os._exit(0 if settings() == usual and not pacing._OPEN else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert settings() != usual
    assert settings() == usual


@pytest.mark.parametrize("switch", [gc.enable, gc.disable])
def test_the_collector_is_as_the_program_has_set_it_in_a_sample(switch):
    (gc.disable if switch is gc.enable else gc.enable)()
    with no_collection():
        switch()
    assert gc.isenabled() == (switch is gc.enable)

    with no_collection():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_settings_are_put_back_where_a_sample_fails():
    usual = settings()
    with pytest.raises(ValueError, match="planted"), quick_turns(), no_collection():
        raise ValueError("planted")
    assert settings() == usual
    assert not pacing._OPEN
