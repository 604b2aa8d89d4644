import signal

import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.guard import attempt, guarded, is_disabled


class Output:
    step = 7

    def __init__(self):
        self.records = []

    def write(self, record):
        self.records.append(record)


class Probe:
    def __init__(self, error):
        self.error = error
        self.calls = []
        self.released = 0
        self._context = Output()

    @guarded
    def setup(self):
        self.calls.append("setup")

    @guarded
    def hook(self):
        self.calls.append("hook")
        raise self.error

    @guarded
    def teardown(self):
        self.calls.append("teardown")

    def _release(self):
        self.released += 1


def test_a_failure_switches_the_probe_off_once_and_says_so(said):
    probe = Probe(ValueError("boom"))

    with said(r"Probe failed and is off[\s\S]*ValueError: boom"):
        probe.hook()
    probe.hook()

    assert probe.calls == ["hook"]
    assert probe.released == 1
    assert is_disabled(probe)
    (record,) = probe._context.records
    assert (record.probe, record.step, record.error) == ("Probe", 7, "ValueError: boom")
    assert "in hook" in record.traceback


@pytest.mark.filterwarnings("error")
def test_a_failure_is_no_warning_which_a_program_may_have_raised(said):
    probe = Probe(ValueError("boom"))

    with said("Probe failed"):
        probe.hook()

    assert probe.released == 1
    assert len(probe._context.records) == 1


def test_sessions_still_end_and_the_next_run_begins_afresh(said):
    probe = Probe(ValueError("boom"))
    with said("Probe failed"):
        probe.hook()

    probe.teardown()
    probe.setup()

    assert probe.calls == ["hook", "teardown", "setup"]
    assert not is_disabled(probe)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), ConfigError("no")])
def test_what_the_user_must_see_passes(error):
    probe = Probe(error)

    with pytest.raises(type(error)):
        probe.hook()

    assert not is_disabled(probe)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
def test_what_a_handler_of_the_program_raises_amid_our_code_reaches_the_program():
    def out_of_time(number, frame):
        raise TimeoutError("the program's own limit")

    class Interrupted(Probe):
        @guarded
        def hook(self):
            attempt(lambda: signal.raise_signal(signal.SIGUSR1), None)

    probe, before = Interrupted(None), signal.signal(signal.SIGUSR1, out_of_time)
    try:
        with pytest.raises(TimeoutError, match="own limit"):
            probe.hook()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert not is_disabled(probe)
    assert probe.released == 0
