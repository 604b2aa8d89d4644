from types import SimpleNamespace

import numpy as np
import pytest

from lightning_gpuprof.records.schema import StepFlag
from lightning_gpuprof.timing.overhead import StepChoice


@pytest.fixture
def timeline():
    return SimpleNamespace(
        step=0, flags=0, next_flags=0, timed=True, timed_count=0, choose=None, on_epoch_end=None
    )


@pytest.fixture
def told():
    return []


@pytest.fixture
def choice(timeline, told):
    return StepChoice(timeline, use=told.append)


def run(timeline, steps):
    marked = []
    for step in steps:
        timeline.step = step
        if timeline.choose is None or timeline.choose():
            marked.append(step)
    return marked


def test_each_block_of_steps_holds_one_mark(timeline, choice):
    choice.time_one_in(8)

    marked = run(timeline, range(1, 801))

    assert len(marked) == 100
    assert max(np.diff(marked)) <= 15


def test_what_happens_every_few_steps_is_met_as_often_as_it_happens(timeline, choice):
    choice.time_one_in(8)

    marked = np.array(run(timeline, range(1, 3_201)))

    for period in (2, 4, 8, 16):
        counts = np.bincount(marked % period, minlength=period)
        assert counts.min() > 0.5 * len(marked) / period


def test_an_epochs_first_step_and_one_that_somebody_insists_on_are_marked(timeline, choice):
    choice.time_one_in(20)
    run(timeline, [1])

    timeline.flags = StepFlag.EPOCH_START
    assert run(timeline, [2]) == [2]
    timeline.flags = 0
    timeline.next_flags = StepFlag.PROFILED
    assert run(timeline, [3, 4]) == [3, 4]
    timeline.next_flags = 0
    assert run(timeline, [5]) == []
