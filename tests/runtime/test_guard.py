import signal

import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.runtime.guard import attempt, guarded, is_disabled


class Context:
    step = 7

    def __init__(self):
        self.records = []

    def write(self, record):
        self.records.append(record)


class Recorder:
    def __init__(self, error):
        self.error = error
        self.calls = []
        self.released = 0
        self._context = Context()

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


def test_a_failure_switches_the_recorder_off_once_and_says_so(said):
    recorder = Recorder(ValueError("boom"))

    with said(r"Recorder failed and is off[\s\S]*ValueError: boom"):
        recorder.hook()
    recorder.hook()

    assert recorder.calls == ["hook"]
    assert recorder.released == 1
    assert is_disabled(recorder)
    (record,) = recorder._context.records
    assert (record.probe, record.step, record.error) == ("Recorder", 7, "ValueError: boom")
    assert "in hook" in record.traceback


@pytest.mark.filterwarnings("error")
def test_a_failure_is_no_warning_which_a_program_may_have_raised(said):
    recorder = Recorder(ValueError("boom"))

    with said("Recorder failed"):
        recorder.hook()

    assert recorder.released == 1
    assert len(recorder._context.records) == 1


def test_sessions_still_end_and_the_next_run_begins_afresh(said):
    recorder = Recorder(ValueError("boom"))
    with said("Recorder failed"):
        recorder.hook()

    recorder.teardown()
    recorder.setup()

    assert recorder.calls == ["hook", "teardown", "setup"]
    assert not is_disabled(recorder)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(), ConfigError("no")])
def test_what_the_user_must_see_passes(error):
    recorder = Recorder(error)

    with pytest.raises(type(error)):
        recorder.hook()

    assert not is_disabled(recorder)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="this system has no SIGUSR1")
def test_what_a_handler_of_the_program_raises_amid_our_code_reaches_the_program():
    def out_of_time(number, frame):
        raise TimeoutError("the program's own limit")

    class Interrupted(Recorder):
        @guarded
        def hook(self):
            attempt(lambda: signal.raise_signal(signal.SIGUSR1), None)

    recorder, before = Interrupted(None), signal.signal(signal.SIGUSR1, out_of_time)
    try:
        with pytest.raises(TimeoutError, match="own limit"):
            recorder.hook()
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert not is_disabled(recorder)
    assert recorder.released == 0
