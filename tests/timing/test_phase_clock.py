from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planted import FakeClock

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.timing.phase_clock import PartRegion, PhaseClock, Slot


@pytest.fixture
def time():
    return FakeClock()


@pytest.fixture
def clock(time):
    clock = PhaseClock(time)
    clock.start()
    return clock


def charged(clock):
    (charged_ns,) = clock.cut().charged_ns.tolist()
    return {clock.slots[n]: ns for n, ns in enumerate(charged_ns) if ns}


def test_the_innermost_region_is_charged(clock, time):
    with clock.region(Phase.OPTIMIZER_STEP):
        time.now_ns += 1
        with clock.region(Phase.FORWARD):
            time.now_ns += 10
        time.now_ns += 100
    time.now_ns += 1000

    assert charged(clock) == {
        Slot(Phase.OPTIMIZER_STEP): 101,
        Slot(Phase.FORWARD): 10,
        Slot(Phase.OTHER): 1000,
    }


def test_a_named_part_belongs_to_the_phase_it_is_entered_in(clock, time):
    dream = PartRegion(clock, "dream")
    with clock.region(Phase.FORWARD), dream:
        time.now_ns += 3
        with clock.region(Phase.BACKWARD), dream:
            time.now_ns += 4

    assert charged(clock) == {Slot(Phase.FORWARD, "dream"): 3, Slot(Phase.BACKWARD, "dream"): 4}


def test_what_was_left_open_is_closed_by_the_region_around_it(clock, time):
    outer, inner = clock.region(Phase.FORWARD), clock.region(Phase.OPTIMIZER_STEP)
    with outer:
        inner.__enter__()
        time.now_ns += 3
    time.now_ns += 4

    assert charged(clock) == {Slot(Phase.OPTIMIZER_STEP): 3, Slot(Phase.OTHER): 4}


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["open", "close", "wait", "cut", "new"]),
        st.sampled_from(list(Phase)),
        st.integers(0, 1000),
    )
)


@settings(deadline=None)
@given(EVENTS)
def test_cuts_add_up_to_the_wall_time_whatever_is_opened_and_closed(events):
    time = FakeClock()
    clock = PhaseClock(time)
    clock.start()
    cuts = []
    for event, phase, number in events:
        if event == "open":
            clock.region(phase).__enter__()
        elif event == "close":
            clock.region(phase).__exit__(None, None, None)
        elif event == "wait":
            time.now_ns += number
        elif event == "new":
            clock.slot(phase, str(number))
        else:
            cuts.append(clock.cut())
    cuts.append(clock.cut())

    assert sum(cut.charged_ns.sum() for cut in cuts) == time.now_ns - cuts[0].start_ns
    for cut, following in pairwise(cuts):
        assert cut.end_ns == following.start_ns
    assert all(cut.charged_ns.sum() == cut.end_ns - cut.start_ns for cut in cuts)
