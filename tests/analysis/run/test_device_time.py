import numpy as np
import pytest

from lightning_gpuprof.analysis.run.gpu_busy import gpu_busy
from lightning_gpuprof.analysis.run.trace_facts import trace_facts
from lightning_gpuprof.analysis.savings.hidden import exposed
from lightning_gpuprof.records.device_marks import StepState, device_marks
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import NOT_MEASURED, Device
from lightning_gpuprof.report.run.limit import busy_figure

US, MS = 1_000, 1_000_000
GPU = Device(type="cuda", name="a GPU")
HOST = {"data_wait": 2 * MS, "forward": 4 * MS, "backward": 4 * MS}


def marks(data_wait, forward, backward, *, ahead):
    columns = {
        "device/data_wait": data_wait,
        "device/forward": forward,
        "device/backward": backward,
        "device_dur": np.asarray(data_wait) + forward + backward,
    }
    names = ("data_wait", "forward", "backward")
    return columns | {f"run_ahead/{name}": value for name, value in zip(names, ahead, strict=True)}


@pytest.mark.parametrize(
    ("data_wait", "ahead", "state"),
    [
        (0, (3 * MS, 5 * MS, 8 * MS), StepState.DEVICE_BOUND),
        (100 * US, (10 * US, 12 * US, 11 * US), StepState.HOST_BOUND),
        (2 * MS, (10 * US, 2 * MS, 4 * MS), StepState.DATA_BOUND),
        (100 * US, (10 * US, 3 * MS, 10 * US), StepState.SYNC_BOUND),
    ],
)
def test_run_ahead_tells_what_a_step_waits_for(analyze, data_wait, ahead, state):
    run = analyze(HOST, columns=marks(data_wait, 4 * MS, 4 * MS, ahead=ahead), steps=20)
    assert run.device.time.state is state
    assert run.device.time.state_frac[state] == 1.0


@pytest.mark.parametrize(("grows", "step_ns"), [(30 * MS, 40 * MS), (0, 10 * MS)])
def test_a_step_is_as_long_as_the_devices_where_the_host_gets_ahead(analyze, grows, step_ns):
    ahead = 400 * MS + grows * np.arange(100)
    columns = marks(np.zeros(100), 20 * MS, 20 * MS, ahead=(ahead, ahead, ahead))
    run = analyze(HOST, columns=columns, device=GPU)
    assert run.steps.dur.mean_ns == 10 * MS
    assert run.step_ns == step_ns


AHEAD = marks(0, 4 * MS, 4 * MS, ahead=(3 * MS, 5 * MS, 8 * MS))


def without(columns, steps):
    """Of ten steps these are not marked."""
    columns = {name: np.broadcast_to(column, 10).copy() for name, column in columns.items()}
    for column in columns.values():
        column[steps] = NOT_MEASURED
    return columns


def only_in_the_fifth(ns):
    return np.where(np.arange(10) == 4, ns, NOT_MEASURED)


def test_a_device_that_waits_for_the_host_takes_no_longer_than_it(analyze):
    assert analyze(HOST, columns=AHEAD, device=GPU).step_ns == 10 * MS


def test_steps_with_a_lost_mark_are_left_out(analyze):
    columns = marks(0, 4 * MS, 4 * MS, ahead=(0, 0, 0))
    run = analyze(HOST, steps=10, columns=without(columns, 3))
    assert run.device.time.marked_steps == 9
    assert run.device.time.phases[Phase.FORWARD].mean_ns == 4 * MS


def test_a_phase_that_most_steps_do_not_have_costs_them_nothing(analyze):
    rare, late = only_in_the_fifth(5 * MS), only_in_the_fifth(10 * US)
    columns = {"device/validation": rare, "run_ahead/validation": late}
    run = analyze(HOST, steps=10, columns=AHEAD | columns)
    assert run.device.time.marked_steps == 10
    assert run.device.time.phases[Phase.VALIDATION].mean_ns == 5 * MS // 10
    assert run.device.time.state_frac[StepState.DEVICE_BOUND] == 0.9


def test_without_marks_there_is_no_device_time(analyze):
    assert analyze(HOST).device.time is None


@pytest.mark.parametrize(("device_wait", "low", "high"), [(0, 0, 0), (MS, 900_000, 1_100_000)])
def test_only_the_wait_that_left_the_device_idle_counts(analyze, device_wait, low, high):
    columns = marks(device_wait, 4 * MS, 4 * MS, ahead=(MS, MS, MS))
    cost = exposed(analyze(HOST, columns=columns, device=GPU), Phase.DATA_WAIT, 2 * MS)
    assert (cost.low_ns, cost.high_ns, cost.basis) == (low, high, "device marks")


def test_the_idle_share_is_of_the_steps_that_have_marks(analyze):
    columns = without(marks(MS, 4 * MS, 4 * MS, ahead=(MS, MS, MS)), slice(5, None))
    # In the other steps the host waits for 6 ms: the mean of all is twice that of these.
    columns["phase/data_wait"] = np.repeat([2 * MS, 6 * MS], 5)
    run = analyze(HOST, steps=10, columns=columns, device=GPU)
    assert run.device.time.phases[Phase.DATA_WAIT].host_mean_ns == 2 * MS
    cost = exposed(run, Phase.DATA_WAIT, 4 * MS)
    assert (cost.low_ns, cost.high_ns) == (1_800_000, 2_200_000)


def test_on_a_cpu_nothing_hides_host_time_and_what_goes_with_it_is_allowed_for(analyze):
    cost = exposed(analyze(HOST), Phase.DATA_WAIT, 2 * MS)
    assert (cost.low_ns, cost.high_ns, cost.basis) == (1_600_000, 2_400_000, "cpu")


def test_a_components_device_time_is_told_and_steps_without_it_count_as_nothing(analyze):
    own = {"encoder": 3 * MS, "critic": only_in_the_fifth(5 * MS)}
    columns = AHEAD | {f"device_part/forward/{name}": ns for name, ns in own.items()}
    (encoder, critic) = analyze(HOST, steps=10, columns=columns).device.time.parts
    assert (encoder.phase, encoder.name, encoder.mean_ns) == (Phase.FORWARD, "encoder", 3 * MS)
    assert (critic.name, critic.mean_ns, critic.median_ns) == ("critic", 5 * MS // 10, 0)


@pytest.mark.parametrize(
    ("ahead", "line"),
    [
        ((3 * MS, 5 * MS, 8 * MS), "GPU 100% busy: it is the limit"),
        ((10 * US, 12 * US, 11 * US), "GPU: it waits for the host"),
        # Two of the four milliseconds of forward were queued for sure: that is not nearly always.
        ((10 * US, 2 * MS, 10 * US), "GPU: the host stops to wait for it"),
    ],
)
def test_marks_alone_show_a_device_that_always_had_work_and_claim_nothing_else(
    analyze, ahead, line
):
    columns = marks(0, 4 * MS, 4 * MS, ahead=ahead)
    run = analyze(HOST, columns=columns, steps=20, device=GPU)
    assert busy_figure(run).note.startswith(line.partition(": ")[2])
    assert device_marks({name: np.full(20, ns) for name, ns in columns.items()}).line() == line


TRACE = {
    "steps": [{"dur_ns": 30 * MS, "distorted": True}, {"dur_ns": 9 * MS}, {"dur_ns": 9 * MS}],
    "gpu": {"steps": 2, "busy_ns": 8 * MS, "compute_ns": 5 * MS, "exposed_comm_ns": 2 * MS,
            "exposed_copy_ns": 1 * MS, "span_ns": 18 * MS},
}  # fmt: skip


def traced(analyze, document):
    columns = marks(100 * US, 4 * MS, 4 * MS, ahead=(10 * US, 12 * US, 11 * US))
    return analyze(HOST, columns=columns, device=GPU, trace=document)


def test_busy_is_the_profiled_steps_work_over_the_devices_step_without_a_profiler(analyze):
    run = traced(analyze, TRACE)
    busy = gpu_busy(run)
    step_ns = 8 * MS + 100 * US
    assert (busy.basis, busy.state, busy.step_ns) == ("trace", StepState.HOST_BOUND, step_ns)
    assert busy.busy_frac == pytest.approx(4 * MS / step_ns)
    assert busy.compute_frac == pytest.approx(2.5 * MS / step_ns)
    assert busy_figure(run).note == "it waits for the host"


def test_no_device_does_more_than_its_time(analyze):
    longer = {**TRACE["gpu"], "busy_ns": 20 * MS, "exposed_copy_ns": 13 * MS}
    run = traced(analyze, {**TRACE, "gpu": longer})
    busy = gpu_busy(run)
    assert (busy.busy_frac, busy.idle_frac) == (1.0, 0.0)
    assert busy_figure(run).note == "mostly with copies: it waits for the host"


def test_a_trace_whose_times_cannot_be_says_nothing_of_the_device(analyze):
    doubted = {**TRACE, "quality": {"doubts": ["2 of 60 kernels have impossible durations."]}}
    run = traced(analyze, doubted)
    assert gpu_busy(run).basis == "marks"
    assert trace_facts(run).doubted
    assert not trace_facts(run).on_device
