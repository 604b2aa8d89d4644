from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import ProfilerAction
from torch.profiler import schedule as torch_schedule

from lightning_gpuprof.schedule import Schedule, ScheduledAction

IN_TORCH = {
    ProfilerAction.NONE: ScheduledAction.IDLE,
    ProfilerAction.WARMUP: ScheduledAction.WARM_UP,
    ProfilerAction.RECORD: ScheduledAction.RECORD,
    ProfilerAction.RECORD_AND_SAVE: ScheduledAction.RECORD,
}
schedules = st.builds(
    Schedule,
    unit=st.just("step"),
    wait=st.integers(0, 4),
    warmup=st.integers(0, 3),
    active=st.integers(1, 4),
    repeat=st.integers(0, 3),
)


@given(schedules)
def test_it_is_torchs_schedule_with_the_wait_skipped_once(schedule):
    theirs = torch_schedule(
        skip_first=schedule.wait,
        wait=0,
        warmup=schedule.warmup,
        active=schedule.active,
        repeat=schedule.repeat + 1,
    )
    for unit in range(schedule.needed() + 3):
        assert schedule.at(unit)[1] is IN_TORCH[theirs(unit)]


@given(schedules)
def test_changes_are_where_the_state_changes(schedule):
    units = range(schedule.needed() + 3)
    expected = [u for u in units[1:] if schedule.at(u) != schedule.at(u - 1)]
    found, unit = [], 0
    while (unit := schedule.next_change(unit)) is not None:
        found.append(unit)
    assert [u for u in found if u in units and u] == expected


@given(schedules, st.integers(0, 60))
def test_cycles_that_fit_need_no_more_than_the_run_has(schedule, units):
    fits = schedule.fitting(units)
    assert fits == 0 or schedule.needed(fits) <= units
    assert fits == schedule.cycles or schedule.needed(fits + 1) > units


def test_of_many_recordings_some_are_named():
    said = Schedule(unit="step", wait=0, warmup=1, active=1, repeat=100_000).recorded(50)
    assert said == "step 1, then step 3, then so on, then step 49"
