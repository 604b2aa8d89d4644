import numpy as np

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED
from lightning_gpuprof.timing.device_marks import DeviceMarks
from lightning_gpuprof.timing.device_rows import OUTSIDE, DeviceClock

US, MS, S = 1_000, 1_000_000, 1_000_000_000
FORWARD, BACKWARD, OTHER = (list(Phase).index(Phase(p)) for p in ("forward", "backward", "other"))


def train(marks, device, steps, *, first=0, host_ns=10 * US, work_ns=MS):
    """Two phases a step, each a little host time and some work."""
    for step in range(first, first + steps):
        for phase in (FORWARD, BACKWARD):
            marks.mark(step, phase, device.clock.now_ns)
            device.clock.now_ns += host_ns
            device.launch(work_ns)
    marks.mark(OUTSIDE, OTHER, device.clock.now_ns)


def take(marks, steps):
    return {k: v.tolist() for k, v in marks.take(np.arange(steps)).items()}


def test_a_phase_has_the_devices_own_time_between_its_boundaries(clock, fake_device):
    device = fake_device(clock)
    marks = DeviceMarks(device, clock)
    assert marks.calibrate()

    train(marks, device, 3)
    device.sync()
    marks.harvest()

    # The device begins the first work when it is queued, 10 us after the boundary.
    assert take(marks, 3) == {
        "device_dur": [2_010 * US, 2 * MS, 2 * MS],
        "device/forward": [1_010 * US, MS, MS],
        "device/backward": [MS, MS, MS],
        "run_ahead/forward": [1_000 * US, 2_980 * US, 4_960 * US],
        "run_ahead/backward": [1_990 * US, 3_970 * US, 5_950 * US],
    }


def test_nothing_is_waited_for(clock, fake_device):
    device = fake_device(clock)
    marks = DeviceMarks(device, clock)
    marks.calibrate()
    train(marks, device, 3)
    before = clock.now_ns
    marks.harvest()
    assert clock.now_ns == before
    assert marks.pending_step == 0
    assert take(marks, 3) == {}


def test_a_mark_for_which_there_is_no_event_costs_its_step(clock, fake_device):
    device = fake_device(clock)
    marks = DeviceMarks(device, clock, capacity=5)
    train(marks, device, 2)  # five marks: the pool is full
    train(marks, device, 1, first=2)  # of which only the first mark finds an event
    device.sync()
    marks.harvest()
    train(marks, device, 2, first=3)
    device.sync()
    marks.harvest()
    assert marks.lost == 2
    assert device.made <= 7
    got = take(marks, 5)["device_dur"]
    assert [value == NOT_MEASURED for value in got] == [False, False, True, False, False]


def test_no_event_is_touched_while_a_graph_is_captured(clock, fake_device):
    device = fake_device(clock)
    marks = DeviceMarks(device, clock)
    train(marks, device, 1)
    marks.mark(1, FORWARD, clock.now_ns)
    device.in_capture = True  # from here on the fake device fails where it is touched
    marks.mark(1, BACKWARD, clock.now_ns)
    device.in_capture = False
    train(marks, device, 2, first=2)
    device.sync()
    marks.harvest()
    assert marks.lost == 0
    got = take(marks, 4)["device_dur"]
    assert [value == NOT_MEASURED for value in got] == [False, True, False, False]


def test_a_busy_device_is_not_calibrated_by(clock, fake_device):
    device = fake_device(clock)
    marks = DeviceMarks(device, clock)
    device.launch(MS)
    assert not marks.calibrate()
    train(marks, device, 1)
    device.sync()
    marks.harvest()
    assert not any(name.startswith("run_ahead") for name in take(marks, 1))
    assert marks.calibrate()


def test_a_device_clock_that_runs_fast_is_followed(clock, fake_device):
    device = fake_device(clock, drift=20e-6)
    marks = DeviceMarks(device, clock)
    for _ in range(20):
        assert marks.calibrate()
        clock.now_ns += S
    clock.now_ns += 100 * S
    train(marks, device, 1)
    device.sync()
    marks.harvest()
    ahead = take(marks, 1)["run_ahead/backward"][0]
    assert abs(ahead - 1_990 * US) < US  # uncorrected it would be 2.4 ms too much


def test_run_ahead_is_never_negative():
    clock = DeviceClock()
    clock.calibrate(0, low_ns=1_000, high_ns=1_100)
    assert clock.run_ahead(10_000, 11_050 + 400) == 0
    assert clock.run_ahead(20_000, 21_000) == 450  # raised by what the other was short of
