"""What a profiler window leaves behind: launches that cost more, on a device that is arithmetic."""

from types import SimpleNamespace

import numpy as np
import pytest
from fake_device import FakeDevice
from made_records import make_session

from lightning_gpuprof.records.schema import Device, ProfilerCycle, StepFlag
from lightning_gpuprof.report.load import load_report

US, MS = 1_000, 1_000_000
GPU = Device(type="cuda", name="a GPU")
LAUNCHES = {"forward": 10, "backward": 20, "optimizer_step": 4}
WAIT, ACTIVE = 10, 3
RUNS = 12
"""Programs of each kind that must not be called slower."""


class Program:
    """A training whose step is so many launches on a fake device, with what would be recorded.

    Args:
        steps: Steps of the run.
        wait: Steps before the profiler warms up, which takes two.
        more: By which share launches cost more once a recording has stopped.
        work_ns: What a launch keeps the device busy.
        scatter: The standard deviation of a step's pace, as a share.
        pace: A factor of the host's time in each step.
        size: A factor of the batch's size in each step.
        spikes: Share of the steps that take twice as long.
    """

    def __init__(
        self, *, steps=600, wait=WAIT, more=0.0, work_ns=20 * US, scatter=0.02, pace=1.0,
        size=1.0, spikes=0.0, seed=0,
    ):  # fmt: skip
        self.clock = SimpleNamespace(now_ns=0)
        self.device = FakeDevice(self.clock, launch_ns=50 * US, latency_ns=5 * US)
        random = np.random.default_rng(seed)
        self.pace = np.broadcast_to(pace, steps) * random.gamma(
            1 / scatter**2, scatter**2, steps
        ) * (1 + (random.random(steps) < spikes))  # fmt: skip
        self.size = np.broadcast_to(size, steps)
        self.steps, self.more, self.work_ns = steps, more, work_ns
        self.window = range(wait, wait + 2 + ACTIVE)
        self.columns = {}

    def run(self):
        """Return the columns of all steps, by name."""
        rows = []
        for step in range(self.steps):
            if step == self.window.stop:
                self.device.launch_ns *= 1 + self.more
            rows.append(self.step(step))
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}

    def step(self, step):
        clock, device, row = self.clock, self.device, {}
        marks = [device.new_event()]
        device.record(marks[0])
        host_ns = device.launch_ns
        for phase, launches in LAUNCHES.items():
            begun_ns = clock.now_ns
            scale = self.size[step] if phase != "optimizer_step" else 1
            device.launch_ns = host_ns * self.pace[step]
            for _ in range(round(launches * scale)):
                device.launch(self.work_ns)
            row[f"phase/{phase}"] = round(clock.now_ns - begun_ns)
            marks.append(device.new_event())
            device.record(marks[-1])
            row[f"device/{phase}"] = round(marks[-1].passed_ns - marks[-2].passed_ns)
            row[f"run_ahead/{phase}"] = round(marks[-1].passed_ns - clock.now_ns)
        device.launch_ns = host_ns
        row["phase/data_wait"] = 50 * US
        clock.now_ns += 50 * US
        row["device/data_wait"] = 0
        row["run_ahead/data_wait"] = max(0, round(marks[-1].passed_ns - clock.now_ns))
        row["device_dur"] = round(marks[-1].passed_ns - marks[0].passed_ns)
        row["flags"] = StepFlag.PROFILED * (step in (*self.window, self.window.stop))
        row["flags"] |= StepFlag.WARMUP * (step < 5)
        return row


def session(*, device=GPU, traced=True, batches=None, flags=None, config=None, **program):
    """Return a program's run as arguments of `make_session`."""
    made = Program(**program)
    columns = made.run()
    phases = {
        name.removeprefix("phase/"): columns.pop(name)
        for name in [*columns]
        if name.startswith("phase/")
    }
    first, last = made.window.stop - ACTIVE, made.window.stop - 1
    cycle = ProfilerCycle(cycle=0, first_step=first, last_step=last, trace_file="t.gz")
    options = {"flags": columns.pop("flags") if flags is None else flags, "config": config or {}}
    if batches is not None:
        options["samples"] = batches(made)
    records = [cycle] if traced else []
    return phases, {
        "steps": made.steps, "columns": columns, "device": device, "records": records, **options,
    }  # fmt: skip


@pytest.fixture
def behind(analyze):
    def of(**options):
        phases, session_options = session(**options)
        return analyze(phases, **session_options).variation.behind_window

    return of


@pytest.fixture
def notices(write_run):
    def of(**options):
        phases, session_options = session(**options)
        report = load_report(write_run(make_session(phases, **session_options)))
        return [notice for notice in report.notices if "step" in notice]

    return of


@pytest.mark.parametrize("more", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("wait", [WAIT, 60])
def test_launches_that_cost_more_behind_the_window_are_measured(behind, more, wait):
    cost = behind(more=more, wait=wait)
    assert cost.since_step == wait + 2 + ACTIVE + 1
    assert cost.before_ns == pytest.approx(34 * 50 * US, rel=0.02)
    assert cost.more_frac == pytest.approx(more, abs=0.03)


@pytest.mark.parametrize(("scatter", "least"), [(0.03, 0.9), (0.05, 0.4)])
def test_runs_that_are_slower_by_a_fifth_are_known_in_spite_of_noise(behind, scatter, least):
    """With the eight steps that come before the default window."""
    known = [behind(more=0.2, scatter=scatter, seed=seed) is not None for seed in range(RUNS)]
    assert sum(known) >= least * RUNS


def test_a_window_that_leaves_nothing_behind_is_not_called_slower(behind):
    for seed in range(RUNS):
        assert behind(seed=seed, scatter=0.05, spikes=0.02, wait=60) is None
        assert behind(seed=seed, scatter=0.02, spikes=0.02) is None


def drifting(kind, seed, steps=600):
    at = np.arange(steps)
    random = np.random.default_rng(seed)
    if kind == "rises":
        return 1 + 0.5 * at / steps
    if kind == "rises at first":
        return 1.3 - 0.3 * np.exp(-at / random.uniform(20, 200))
    if kind == "at another step":
        return np.where(at < random.integers(WAIT + 100, steps), 1.0, 1.3)
    if kind == "comes and goes":
        return np.where((at // random.integers(30, 90)) % 2, 1.3, 1.0)
    return np.exp(np.cumsum(random.normal(0, 0.01, steps)))


@pytest.mark.parametrize(
    "kind", ["rises", "rises at first", "at another step", "comes and goes", "wanders"]
)
@pytest.mark.parametrize("wait", [WAIT, 60])
def test_a_run_that_drifts_for_another_cause_is_not_called_slower(behind, kind, wait):
    claims = sum(
        behind(pace=drifting(kind, seed), seed=seed, wait=wait) is not None for seed in range(RUNS)
    )
    assert claims == 0


def test_larger_batches_are_set_aside(behind):
    larger = np.where(np.arange(600) < WAIT + 5, 1.0, 1.5)
    assert behind(size=larger, batches=lambda made: (64 * made.size).astype(int)) is None
    mixed = np.where(np.arange(600) % 3 == 1, 1.5, 1.0)
    cost = behind(size=mixed, more=0.2, wait=60, batches=lambda made: (64 * made.size).astype(int))
    assert cost.more_frac == pytest.approx(0.2, abs=0.03)


def test_validation_in_the_steps_behind_is_set_aside(behind):
    flags = np.where(np.arange(600) % 10 == 9, StepFlag.VALIDATION, 0)
    flags[WAIT : WAIT + 6] = StepFlag.PROFILED
    assert behind(flags=flags, wait=WAIT) is None


def test_nothing_is_claimed_of_a_cpu_of_amd_or_without_a_window(behind):
    assert behind(more=0.3, device=Device(type="cpu")) is None
    assert behind(more=0.3, device=Device(type="hip")) is None
    assert behind(more=0.3, traced=False) is None


def test_nothing_is_claimed_where_the_device_holds_the_host_back(behind):
    assert behind(more=0.3, work_ns=200 * US) is None


@pytest.mark.parametrize("steps", [16, 30])
def test_nothing_is_claimed_of_too_few_steps(behind, steps):
    assert behind(more=0.3, steps=steps) is None


def test_the_report_says_by_how_much_since_when_and_what_to_do(notices):
    (said,) = notices(more=0.5, wait=60)
    assert said.startswith("Behind the profiler window, from step 66 on, work on a batch takes 2.5")
    assert "instead of 1.70 ms (50% more): torch.profiler leaves" in said
    assert "CUPTI attached to the GPU" in said
    assert "Set teardown='on', or record a later window (wait=...) or none (trace=False)." in said


def test_where_cupti_was_to_be_detached_another_remedy_is_named(notices):
    (said,) = notices(more=0.3, wait=60, config={"teardown": "on"})
    assert "teardown" not in said
    assert said.endswith("Record a later window (wait=...) or none (trace=False).")


def test_a_change_at_another_step_is_told_as_what_it_is(notices):
    pace = np.where(np.arange(600) < 300, 1.0, 1.5)
    (said,) = notices(pace=pace, wait=60)
    assert said.startswith("From step 30")
    assert "CUPTI" not in said


def test_both_are_told_where_steps_change_again_later(notices):
    pace = np.where(np.arange(600) < 300, 1.0, 1.4)
    said = notices(more=0.3, pace=pace, wait=60, scatter=0.01)
    assert len(said) <= 2
    assert any(notice.startswith("From step 30") for notice in said)
