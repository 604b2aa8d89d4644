"""When windows of records are written: the first ones at once, later ones together."""

import re
import signal
from types import SimpleNamespace

import pytest

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.writer import RecordWriter
from lightning_gpuprof.runtime import context as run_context
from lightning_gpuprof.runtime.context import RunContext
from lightning_gpuprof.runtime.guard import interrupts_wait
from lightning_gpuprof.timing import overhead, window_writer
from lightning_gpuprof.timing.overhead import Overhead
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.run import TimingRun
from lightning_gpuprof.timing.step_timeline import StepTimeline
from lightning_gpuprof.timing.windows import Window

SECOND = 1_000_000_000


@pytest.fixture
def train(planted, clock, tmp_path, monkeypatch):
    """Train with windows of two steps.

    Returns how many steps were on disk as each one ran, and how many are in the end.
    """
    monkeypatch.setattr(overhead, "_MIN_STEPS", 4)

    def run(*, step_ns, ends=None, raised=None):
        options = {"warmup": 0, "overhead_budget": 1.0, "clock": clock}
        timer, seen = PhaseTimer(window=2, console=False, **options), []

        class Model(planted.Model):
            def training_step(self, batch, batch_idx):
                seen.append(planted.sessions(timer)[0].steps)
                clock.now_ns += step_ns
                if ends is not None and len(seen) == 27:
                    raise ends
                return super().training_step(batch, batch_idx)

        options = {"model": Model(clock), "max_epochs": 5}
        if ends is None:
            planted.fit(timer, clock, tmp_path, **options)
        else:
            with pytest.raises(raised):
                planted.fit(timer, clock, tmp_path, **options)
        return seen, planted.sessions(timer)[0].steps

    return run


def test_full_windows_wait_for_half_of_the_run_so_far_and_fifteen_seconds_at_most(train):
    seen, whole = train(step_ns=2 * SECOND)

    assert sorted(set(seen)) == [0, 2, 4, 10, 18, 26]
    assert whole == 30


def test_windows_whose_time_has_not_come_are_not_asked_about_one_by_one(train, monkeypatch):
    asked, ask = [], RunContext.windows_left

    def counts(context, written_ns, waiting):
        asked.append(ask(context, written_ns, waiting))
        return asked[-1]

    monkeypatch.setattr(RunContext, "windows_left", counts)
    seen, whole = train(step_ns=SECOND)

    assert sorted(set(seen)) == [0, 2, 4, 10, 22]
    # Six windows are written together, and asked about three times: the first tells that four more
    # will do by its pace, and these that it was one more.
    assert asked[-4:-1] == [4, 1, 0]
    assert whole == 30


@pytest.mark.parametrize(
    ("step_s", "steps"), [(0.2, [30]), (2.5, [2, 5, 8, 11]), (12, [1, 2, 3, 4])]
)
def test_slow_steps_are_told_by_time_the_first_within_ten_seconds_where_one_ends_by_then(
    planted, clock, tmp_path, shown, step_s, steps
):
    class Slow(planted.Model):
        def training_step(self, batch, batch_idx):
            clock.now_ns += int(step_s * SECOND)
            return super().training_step(batch, batch_idx)

    timer = PhaseTimer(window=50, clock=clock)
    planted.fit(timer, clock, tmp_path, model=Slow(clock), max_epochs=5)
    told = [int(re.search(r" \| step (\d+) \| ", one)[1]) for one in shown("[PROFILE] data")]
    assert told[: len(steps)] == steps


@pytest.mark.parametrize(
    ("ends", "raised"), [(ValueError("torn"), ValueError), (KeyboardInterrupt(), SystemExit)]
)
def test_what_waits_is_written_whatever_python_hears_of(train, ends, raised):
    seen, whole = train(step_ns=SECOND, ends=ends, raised=raised)

    assert seen[-1] == 22
    assert whole == 26


@pytest.fixture
def ctrl_c():
    """Python's own handler, also where a shell began this process with SIGINT ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (run_context, "run_start"),
        (window_writer, "outside_span"),
        (StepTimeline, "take_rows"),
        (PhaseClock, "_settle"),
        (Window, "__init__"),
        (Window, "record"),
        (Overhead, "add"),
        (RunContext, "write"),
        (RecordWriter, "write"),
        (RecordWriter, "flush"),
        (StepTimeline, "stop"),
        (TimingRun, "restore"),
    ],
)
def test_ctrl_c_amid_a_write_loses_no_step_and_doubles_none(
    planted, clock, tmp_path, monkeypatch, owner, name, late
):
    """Ctrl-C comes as the function begins, or as it ends, in the first write after some steps."""
    done = SimpleNamespace(steps=0, interrupted=False)
    function = getattr(owner, name)

    def pressed():
        if done.steps >= 2 or owner is run_context:
            done.interrupted = True
            signal.raise_signal(signal.SIGINT)

    def interrupted(*args, **kwargs):
        if not late and not done.interrupted:
            pressed()
        result = function(*args, **kwargs)
        if late and not done.interrupted:
            pressed()
        return result

    class Model(planted.Model):
        def training_step(self, batch, batch_idx):
            result = super().training_step(batch, batch_idx)
            done.steps += 1
            return result

    monkeypatch.setattr(owner, name, interrupted)
    timer = PhaseTimer(window=2, console=False, warmup=0, clock=clock)
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=2)

    assert done.interrupted
    (session,) = planted.sessions(timer)
    assert session.end.status == "interrupted"
    assert [*session.columns.get("step", ())] == list(range(done.steps))
    spans = [outside.start_ns for outside in session.outside]
    assert len(spans) == len(set(spans))


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_for_the_end_of_what_must_not_be_torn_also_where_that_fails():
    done = []

    @interrupts_wait()
    def fails():
        signal.raise_signal(signal.SIGINT)
        done.append("after it")
        raise ValueError

    with pytest.raises(KeyboardInterrupt):
        fails()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
