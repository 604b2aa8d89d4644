"""Captures of a running training, on the clock of the test: requests, slow-downs and refusals."""

import os
import re
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks.capture_control import (
    ENDED,
    LINES_S,
    PAUSE,
    STAT_NS,
    CaptureControl,
)
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.capture_files import (
    CaptureAnswer,
    CaptureRequest,
    CaptureState,
    answer_path,
    plan_path,
    read_file,
    request_path,
    write_file,
)
from lightning_gpuprof.records.facts import Capture, CaptureReason, SlowDown, SlowDownShape
from lightning_gpuprof.records.lines import CapturedLines, HostLines
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import ProbeDisabled, ProfilerCycle, StepFlag
from lightning_gpuprof.runtime.context import RunContext

STEP_NS = 100_000_000
SEEN_WITHIN = STAT_NS // STEP_NS + 5
"""Steps in which a request is seen: it is looked for every five seconds, at the end of a batch."""


class Lines:
    """Stands in for the sampler: samples until it was asked `looks` times whether it still does."""

    def __init__(self, looks=2, problem=None):
        self.looks, self.problem, self.asked = looks, problem, []

    def cannot_sample(self):
        return self.problem

    def sample_again(self, capture, seconds):
        self.asked.append((capture, seconds))
        self.left = self.looks

    @property
    def samples_again(self):
        self.left -= 1
        return self.left >= 0

    def take_again(self):
        return CapturedLines(self.asked[-1][0], HostLines(7, (), {"forward": 7}))


class Steps(BoringModel):
    """Every step takes `STEP_NS`; `plan` has what happens in a step."""

    def __init__(self, clock, plan):
        super().__init__()
        self.clock, self.plan = clock, plan

    def training_step(self, batch, batch_idx):
        self.clock.now_ns += STEP_NS
        step = self.trainer.fit_loop.epoch_loop.batch_progress.total.ready - 1
        if step in self.plan:
            self.plan[step](self.trainer)
        return super().training_step(batch, batch_idx)

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 10_000))


class Fit:
    """What a fit left: the session's records and the answer of rank 0."""

    def __init__(self, run):
        self.run = run
        self.session = read_run(run)[0].sessions[-1]
        by_number = {record.number: record for record in self.session.all(Capture)}
        self.captures = list(by_number.values())
        self.windows = [c for c in self.session.all(ProfilerCycle) if c.capture is not None]
        self.profiled = [
            step
            for step, flags in enumerate(self.session.columns["flags"])
            if flags & StepFlag.PROFILED
        ]

    @property
    def answer(self):
        return read_file(answer_path(self.run, 0), CaptureAnswer)


@pytest.fixture
def fit(tmp_path, clock, planted):
    def fitted(plan, *, steps=120, epochs=1, lines=None, max_captures=3, stat=os.stat, **settings):
        callback = GpuProfCallback(
            **{"console": False, "report": False, "lines": False, **settings}, clock=clock
        )
        windows = next((p for p in callback.parts if isinstance(p, ProfilerSchedule)), None)
        control = CaptureControl(windows, lines, max_captures=max_captures, stat=stat)
        callback.parts[-1:] = [control]
        callback._forward()
        if callable(plan):
            plan = plan(control)
        trainer = Trainer(
            max_epochs=epochs,
            limit_val_batches=0,
            limit_train_batches=steps,
            logger=CSVLogger(tmp_path),
            callbacks=[callback],
        )
        trainer.fit(Steps(clock, plan))
        return Fit(trainer.logger.log_dir)

    return fitted


def asks(**request):
    """Return a function that writes a request, as the command does."""

    def ask(trainer):
        context = RunContext.running(trainer)
        request.setdefault("started_unix_ns", context.started_unix_ns)
        write_file(
            request_path(context.run_dir), CaptureRequest(**{"id": "0123456789abcdef", **request})
        )

    return ask


def test_a_request_is_seen_within_five_seconds_and_answered_with_trace_and_lines(fit):
    lines = Lines()
    run = fit({20: asks(steps=4, lines_s=3.0)}, lines=lines)
    (capture,) = run.captures
    assert (capture.why, capture.number, capture.problem) == (CaptureReason.REQUEST, 0, "")
    assert 20 <= capture.step <= 20 + SEEN_WITHIN
    assert capture.last_step == capture.first_step + 3
    assert capture.first_step <= capture.step + 4
    assert lines.asked == [(0, 3.0)]
    (window,) = run.windows
    assert (window.first_step, window.last_step) == (capture.first_step, capture.last_step)
    assert window.trace_file == capture.trace_file == "rank0-capture0.pt.trace.json.gz"
    assert window.cycle == 1  # after the one of the default schedule
    answer = run.answer
    assert (answer.state, answer.trace_file) == (CaptureState.DONE, window.trace_file)
    assert (answer.samples, answer.message) == (7, "")
    assert run.session.all(CapturedLines) == [lines.take_again()]
    assert not os.path.exists(request_path(run.run))


def test_the_steps_of_the_window_are_flagged_and_no_others(fit):
    run = fit({20: asks(steps=4)}, lines=Lines())
    first = run.captures[0].first_step
    default = range(9, 15)
    # The step before the two of the warm-up bears the profiler's making.
    assert run.profiled == [*default, *range(first - 3, first + 4)]


def test_the_folder_is_looked_at_once_in_five_seconds(fit):
    looks = Counter()

    def stat(path):
        looks[os.path.basename(path)] += 1
        return os.stat(path)

    fit({}, steps=600, stat=stat)
    assert looks.keys() == {"capture-request.json"}
    assert 10 <= looks.total() <= 600 * STEP_NS // STAT_NS == 12


def test_a_request_for_another_session_is_left_alone(fit):
    run = fit({10: asks(started_unix_ns=5)})
    assert run.captures == []
    assert os.path.exists(request_path(run.run))
    assert not os.path.exists(answer_path(run.run, 0))


@pytest.mark.parametrize("text", [b"", b"{", b"[1]", b'{"id": "../x", "started_unix_ns": 5}'])
def test_what_is_no_request_is_ignored(fit, text):
    def write(trainer):
        with open(request_path(trainer.logger.log_dir), "wb") as file:
            file.write(text)

    run = fit({10: write})
    assert run.captures == []
    assert run.session.all(ProbeDisabled) == []


def test_a_window_of_the_schedule_comes_first(fit):
    run = fit({1: asks(steps=3)}, wait=60, warmup=1, active=5, lines=Lines())
    assert run.captures[0].first_step < 60  # there was room before it

    run = fit({1: asks(steps=30)}, wait=60, warmup=1, active=5, lines=Lines())
    assert run.captures[0].first_step > 65
    assert [c.first_step for c in run.session.all(ProfilerCycle)] == [
        61, run.captures[0].first_step
    ]  # fmt: skip


def test_an_epoch_of_the_schedule_ends_a_window(fit):
    settings = {"unit": "epoch", "wait": 1, "warmup": 0, "active": 1, "repeat": 0}
    run = fit({20: asks(steps=100)}, steps=80, epochs=3, lines=Lines(), **settings)
    (window,) = run.windows
    assert window.last_step == 79
    assert [c.first_step for c in run.session.all(ProfilerCycle)] == [window.first_step, 80]


@pytest.mark.parametrize(
    ("settings", "lines", "state", "said"),
    [
        ({"trace": False}, None, "refused", "trace=False .*; no lines were sampled: lines=False"),
        ({"trace": False}, Lines(), "done", "trace=False"),
        ({}, Lines(problem="planted"), "done", "^no lines were sampled: planted"),
        ({"steps": 60}, Lines(), "done", "the training ends before step"),
    ],
)
def test_what_cannot_be_recorded_is_answered_with_the_reason(fit, settings, lines, state, said):
    run = fit({5: asks(steps=30)}, lines=lines, **settings)
    assert run.answer.state == state
    assert run.answer.step < 100
    assert re.search(said, run.answer.message)


def test_another_profiler_is_left_alone_and_the_answer_says_so(fit, said):
    theirs = torch.profiler.profile()
    plan = {18: lambda trainer: theirs.start(), 19: asks(), 100: lambda trainer: theirs.stop()}
    with said("Only one profiler can record"):
        run = fit(plan, lines=Lines())
    assert run.windows == []
    assert run.answer.state is CaptureState.DONE
    assert "Only one profiler can record" in run.answer.message
    assert run.answer.samples == 7


def test_a_full_disk_is_said_and_costs_nothing_else(fit, monkeypatch, said):
    usage = SimpleNamespace(free=1_000)
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    with said("No trace is recorded"):
        run = fit({20: asks()}, lines=Lines())
    assert re.search("has 1000 B free, and a trace may need 64.0 MiB", run.answer.message)
    assert run.answer.samples == 7
    assert run.session.all(ProbeDisabled) == []


def test_a_capture_that_the_end_of_training_cuts_short_has_what_was_recorded(fit):
    run = fit(
        {20: asks(steps=40), 90: lambda trainer: setattr(trainer, "should_stop", True)},
        lines=Lines(),
    )
    (capture,) = run.captures
    assert capture.last_step == 90
    assert run.answer.state is CaptureState.DONE
    assert run.answer.trace_file
    assert run.answer.samples == 0

    run = fit({20: asks()}, lines=Lines(looks=10_000))
    assert run.answer.message == ENDED
    assert run.answer.samples == 7


def test_a_new_request_ends_the_one_that_is_being_served(fit):
    lines = Lines(looks=10_000)
    run = fit({10: asks(id="a" * 8), 62: asks(id="b" * 8)}, steps=240, lines=lines)
    assert [capture.number for capture in run.captures] == [0, 1]
    assert [window.capture for window in run.windows] == [0, 1]
    assert run.answer.id == "b" * 8


def slow_down(since=5, **fields):
    return SlowDown(
        shape=SlowDownShape.STEP, since_step=since, noticed_step=40, before_ns=10, during_ns=20,
        **fields,
    )  # fmt: skip


def slow_downs(*steps, **fields):
    """Return a plan in which a slow-down is noticed in these steps."""

    def plan(control):
        return {step: lambda trainer: control.on_slow_down(slow_down(**fields)) for step in steps}

    return plan


def test_a_slow_down_is_captured_with_the_lines_of_as_many_seconds_as_at_the_beginning(fit):
    lines = Lines()
    run = fit(slow_downs(40), lines=lines)
    (capture,) = run.captures
    assert (capture.why, capture.onset_step) == (CaptureReason.SLOW_DOWN, 5)
    assert (capture.step, capture.first_step, capture.last_step) == (40, 44, 46)
    assert lines.asked == [(0, LINES_S)]
    assert not os.path.exists(answer_path(run.run, 0))


def test_captures_of_slow_downs_are_few_and_ever_further_apart(fit):
    run = fit(slow_downs(*range(40, 600, 5)), steps=600, lines=Lines())
    steps = [capture.step for capture in run.captures]
    assert len(steps) == 3
    for before, after in pairwise(steps):
        assert after >= PAUSE * before
    assert len(fit(slow_downs(*range(40, 90)), lines=Lines(), max_captures=1).captures) == 1


def test_a_slow_down_that_comes_too_early_is_captured_later_if_it_lasts(fit):
    run = fit(slow_downs(20, 30), lines=Lines())
    assert [capture.step for capture in run.captures] == [20, 79]  # the first ended at 39

    def ends(control):
        lasting, past = slow_down(since=28), slow_down(since=28, until_step=35)
        plan = {30: lasting, 36: past, 20: slow_down()}
        return {
            step: lambda trainer, noticed=noticed: control.on_slow_down(noticed)
            for step, noticed in plan.items()
        }

    assert [capture.step for capture in fit(ends, lines=Lines()).captures] == [20]


def test_a_slow_down_is_captured_neither_during_a_request_nor_in_the_windows_of_the_schedule(fit):
    def plan(control):
        return {20: asks(), 80: lambda trainer: control.on_slow_down(slow_down())}

    run = fit(plan, lines=Lines(looks=10_000))
    assert [capture.why for capture in run.captures] == [CaptureReason.REQUEST]

    run = fit(slow_downs(4), lines=Lines())
    assert run.captures[0].first_step > 15  # behind the schedule's window


@pytest.mark.parametrize(("since", "every", "first"), [(5, 35, 74), (6, 41, 46), (45, 7, 44)])
def test_a_window_is_set_on_the_step_at_which_a_spike_is_due(fit, since, every, first):
    run = fit(slow_downs(40, since=since, every_steps=every), lines=Lines())
    assert (run.captures[0].first_step, run.captures[0].last_step) == (first, first + 2)
    assert run.profiled[-6:] == [*range(first - 3, first + 3)]


class Rank:
    """A control on a rank of its own, which is looked at step by step."""

    def __init__(self, tmp_path, rank, step=0):
        self.windows, self.now_ns, self.batches = [], 0, 0
        context = SimpleNamespace(
            rank=rank,
            run_dir=str(tmp_path),
            started_unix_ns=9 if rank == 0 else 77,
            step=step,
            now=lambda: self.now_ns,
            clock=lambda: self.now_ns,
            write=lambda record: None,
            flush=lambda: None,
        )
        self.context = context
        schedule = SimpleNamespace(
            first_free=lambda step, steps: step,
            no_window=lambda: None,
            steps_left=lambda step: None,
            open_window=lambda **window: self.windows.append(window),
            is_scheduled=rank == 0,
        )
        self.control = CaptureControl(schedule, Lines())
        self.control._context = context
        self.look = None
        self.calls = SimpleNamespace(add=self.add, drop=lambda method: None, batches=0)

    def add(self, method, every):
        self.look = method

    def start(self, monkeypatch):
        hooks = SimpleNamespace(periodic=self.calls)
        monkeypatch.setattr(
            "lightning_gpuprof.callbacks.capture_control.dispatcher_in", lambda *_: hooks
        )
        self.control.on_train_start(SimpleNamespace(), SimpleNamespace())

    def trains(self, steps):
        for _ in range(steps):
            self.now_ns += STEP_NS
            self.context.step += 1
            self.calls.batches += 1
            self.look()


def test_ranks_that_look_at_different_moments_record_the_same_steps(tmp_path, monkeypatch):
    os.makedirs(tmp_path / "plugins" / "gpuprof")
    ranks = [Rank(tmp_path, rank) for rank in (0, 1, 8)]
    for rank in ranks:
        rank.now_ns = rank.context.rank * 1_234_567_890
        rank.start(monkeypatch)
    request = CaptureRequest(id="0" * 8, started_unix_ns=9, ranks=(0, 8), steps=4)
    write_file(request_path(str(tmp_path)), request)
    for _ in range(130):
        for rank in ranks:
            rank.trains(1)
    zero, one, eight = ranks
    assert one.windows == []
    assert len(zero.windows) == len(eight.windows) == 1
    assert zero.windows[0]["first_step"] == eight.windows[0]["first_step"] > 100
    assert zero.windows[0]["steps"] == eight.windows[0]["steps"] == 4
    answer = read_file(answer_path(str(tmp_path), 8), CaptureAnswer)
    assert (answer.state, answer.first_step) == (
        CaptureState.WAITING, zero.windows[0]["first_step"]
    )  # fmt: skip


def test_a_rank_that_sees_the_plan_too_late_says_so(tmp_path, monkeypatch):
    os.makedirs(tmp_path / "plugins" / "gpuprof")
    rank = Rank(tmp_path, 8, step=500)
    rank.start(monkeypatch)
    write_file(
        plan_path(str(tmp_path)),
        CaptureRequest(id="0" * 8, started_unix_ns=9, ranks=(8,), first_step=510),
    )
    rank.trains(60)
    assert rank.windows == []
    answer = read_file(answer_path(str(tmp_path), 8), CaptureAnswer)
    assert "the plan for step 510 was seen only in step 55" in answer.message


def test_a_plan_that_was_there_before_the_training_is_none(tmp_path, monkeypatch):
    os.makedirs(tmp_path / "plugins" / "gpuprof")
    write_file(
        plan_path(str(tmp_path)),
        CaptureRequest(id="0" * 8, started_unix_ns=9, ranks=(8,), first_step=90),
    )
    rank = Rank(tmp_path, 8)
    rank.start(monkeypatch)
    rank.trains(80)
    assert rank.windows == []
    assert not os.path.exists(answer_path(str(tmp_path), 8))


def test_without_captures_no_part_looks_for_requests(fit):
    parts = GpuProfCallback(max_captures=0).parts
    assert not [part for part in parts if isinstance(part, CaptureControl)]
    assert not [
        part for part in GpuProfCallback(timing=False).parts if type(part) is CaptureControl
    ]
    with pytest.raises(ConfigError, match="max_captures=-1 is negative"):
        GpuProfCallback(max_captures=-1)
