"""Which steps a device's marks are put in, on a clock and marks that cost what they are told."""

from types import SimpleNamespace

import numpy as np
import pytest

from lightning_gpuprof.timing.device_marking import DeviceMarking
from lightning_gpuprof.timing.phase_clock import PhaseClock
from lightning_gpuprof.timing.step_timeline import StepTimeline

MS = 1_000_000


class Marks:
    """Cost the host as much of each step as is told, which are all of one ms."""

    marked = own_ns = lost = 0
    queueing_ns = 0

    def mark(self, step, phase, host_ns, part=-1):
        self.marked += 1

    def relabel(self, phase):
        pass

    def take(self, steps):
        return {}


@pytest.fixture
def marking(clock):
    """Puts no marks, and says in how many steps it would."""
    timeline = StepTimeline(PhaseClock(clock))
    notes = []
    context = SimpleNamespace(now=clock, note=lambda name, value, message: notes.append(value))
    made = DeviceMarking(Marks(), timeline, context, budget=0.01)
    made.notes = notes
    timeline.clock.start()
    return made


def test_a_cost_that_lies_about_the_budget_turns_nothing_back_and_forth(marking):
    marks = marking.marks
    marking._steps_marked = 10
    marks.marked, marks.own_ns = 10, 100_000  # 10 us a step, of which the budget is one in 100
    steps = np.arange(8)
    for _ in range(20):
        for dur_ns in (8 * MS * 95 // 100, 8 * MS * 105 // 100):
            marking.columns(steps, dur_ns)
    assert (marking.every, len(marking.notes)) == (2, 1)
    marking.columns(steps, 8 * 3 * MS)
    assert (marking.every, marking.notes[-1]) == (1, 1)
