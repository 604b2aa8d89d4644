import signal

import pytest

from lightning_gpuprof.capture.cycles import CycleRunner
from lightning_gpuprof.schedule import Schedule


class FakeTrace:
    def __init__(self, log):
        self.log = log

    def __getattr__(self, name):
        return lambda *args: self.log.append(" ".join([name, *map(str, args)]))

    def stop(self):
        self.log.append("stop")


class Rig:
    """A schedule run over so many steps, with what the profiler was told."""

    def __init__(self, *, busy=False, **numbers):
        numbers = {"unit": "step", "wait": 0, "warmup": 0, "active": 1, "repeat": 0} | numbers
        self.log, self.made, self.recorded, self.clock = [], 0, [], iter(range(0, 10_000, 7))
        self.busy = busy
        self.cycles = CycleRunner(
            Schedule(**numbers),
            new_trace=self.new_trace,
            on_recorded=self.recorded.append,
            now=lambda: next(self.clock),
        )

    def new_trace(self):
        self.made += 1
        return None if self.busy else FakeTrace(self.log)

    def steps(self, *numbers):
        for number in numbers:
            self.cycles.end_step()
            self.cycles.begin_unit()
            self.cycles.begin_step(number)

    @property
    def spans(self):
        return [(r.cycle, r.first_step, r.last_step) for r in self.recorded]


def test_a_profiler_exists_only_from_warm_up_to_the_cycles_end():
    rig = Rig(wait=2, warmup=1, active=2)
    rig.steps(0, 1)
    assert rig.made == 0
    rig.steps(2)
    assert rig.log == ["prepare"]
    rig.steps(3, 4, 5, 6, 7)
    assert rig.log == [
        *("prepare", "start", "begin_step 3", "end_step", "begin_step 4"),
        *("end_step", "end_step", "stop"),
    ]
    assert rig.spans == [(0, 3, 4)]
    assert rig.recorded[0].stop_ns == 7


def test_a_cycle_is_left_out_while_another_profiler_is_at_work():
    rig = Rig(active=1, repeat=1, busy=True)
    rig.steps(0)
    rig.busy = False
    rig.steps(1, 2)
    assert rig.spans == [(1, 1, 1)]


class Interrupted(FakeTrace):
    """Ctrl-C comes amid one of its calls, each of which says when it is over."""

    def __init__(self, log, amid):
        super().__init__(log)
        self.amid = amid

    def _call(self, name):
        if name == self.amid:
            signal.raise_signal(signal.SIGINT)
        self.log.append(f"{name} is over")

    def prepare(self):
        self._call("prepare")

    def start(self):
        self._call("start")

    def stop(self):
        self._call("stop")


@pytest.fixture
def interrupts():
    """SIGINT raises KeyboardInterrupt, however the shell began this process."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("amid", ["prepare", "start", "stop"])
def test_ctrl_c_leaves_no_profiler_half_begun_or_half_ended(interrupts, amid):
    rig = Rig(warmup=1)
    rig.cycles._new_trace = lambda: Interrupted(rig.log, amid)
    with pytest.raises(KeyboardInterrupt):
        rig.steps(0, 1, 2)
    assert rig.log[-1] == f"{amid} is over"
    rig.cycles.close()
    assert rig.log.count("stop is over") == 1
    assert not rig.cycles.active
