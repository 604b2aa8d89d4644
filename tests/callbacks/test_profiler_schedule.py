from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.profilers import PyTorchProfiler
from profiled_runs import Marked, Run, fit
from torch.utils.data import IterableDataset
from training_fixtures import FailsAt

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.capture.checks import refuse_device
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import StepFlag

PROFILED = StepFlag.PROFILED


class Stream(IterableDataset):
    def __iter__(self):
        yield from (torch.ones(32) for _ in range(7))


PARTS = {"fetch", "forward", "backward", "optimizer"}


def parts_of(trace, step):
    names = [e["name"].split(":") for e in trace.inside(step) if e["name"].startswith("part:")]
    return Counter(name for _, name, _ in names), {int(number) for _, _, number in names}


@pytest.mark.parametrize("wait", [0, 2])
def test_each_profiler_step_holds_its_own_fetch_forward_backward_and_optimizer(tmp_path, wait):
    trainer = fit(
        tmp_path,
        PhaseTimer(console=False),
        ProfilerSchedule(wait=wait, warmup=1, active=3, repeat=1),
        model=Marked(),
        val_check_interval=4,
        limit_val_batches=1,
    )
    run = Run(trainer)
    first = wait + 1
    assert [(c.cycle, c.first_step, c.last_step) for c in run.cycles] == [
        (0, first, first + 2),
        (1, first + 4, first + 6),
    ]
    for cycle in (0, 1):
        trace = run.trace(cycle)
        begin = run.cycles[cycle].first_step
        assert trace.numbers == [begin, begin + 1, begin + 2]
        for number, step in zip(trace.numbers, trace.steps, strict=True):
            parts, numbers = parts_of(trace, step)
            expected = PARTS | ({"validation"} if number % 4 == 3 else set())
            assert parts == dict.fromkeys(expected, 1)
            assert numbers == {number}
        assert all(e["name"] != "part:other" for e in trace.events)
        outside = [e for e in trace.events if e["name"].startswith("part:")]
        assert len(outside) == sum(sum(parts_of(trace, s)[0].values()) for s in trace.steps)


@pytest.mark.parametrize(
    ("schedule", "options", "numbers"),
    [
        (
            {"unit": "epoch", "wait": 1, "warmup": 1, "active": 1},
            {"limit_train_batches": 3, "max_epochs": 4},
            [6, 7, 8],
        ),
        (
            {"wait": 5, "warmup": 0, "active": 4},
            {"train": Stream(), "limit_train_batches": None, "max_epochs": 2},
            [5, 6, 7, 8],
        ),
        ({"wait": 1, "warmup": 0, "active": 4}, {"accumulate_grad_batches": 2}, [1, 2, 3, 4]),
    ],
    ids=["epochs whole", "iterable of unknown length", "accumulated batches"],
)
def test_a_profiler_step_is_a_batch_numbered_from_the_fits_begin(
    tmp_path, schedule, options, numbers
):
    assert Run(fit(tmp_path, ProfilerSchedule(**schedule), **options)).trace().numbers == numbers


def test_a_run_too_short_for_the_default_window_has_no_trace_and_says_so(tmp_path):
    run = Run(fit(tmp_path, ProfilerSchedule()))
    assert run.files == []
    assert "needs 10 + (2 + 3) = 15 steps, but this run has at most 12" in (
        run.notes["no-trace"].message
    )


@pytest.mark.parametrize(
    ("schedule", "options", "said"),
    [
        ({"wait": 10}, {}, r"15 steps.*at most 12.*Train for at least 15 steps"),
        (
            {"unit": "epoch", "wait": 3, "warmup": 1, "active": 3, "repeat": 1},
            {"max_epochs": 5},
            r"3 \+ \(1 \+ 3\) \* 2 = 11 epochs.*at least 7 .* 11 ",
        ),
        (
            {"wait": 10},
            {"max_steps": 4, "accumulate_grad_batches": 2, "max_epochs": -1},
            "at most 8,",
        ),
    ],
)
def test_a_given_schedule_that_cannot_fit_is_an_error_with_the_smallest_number_that_works(
    tmp_path, schedule, options, said
):
    with pytest.raises(ConfigError, match=said):
        fit(tmp_path, ProfilerSchedule(**schedule), **options)


def test_later_cycles_that_cannot_fit_are_one_warning(tmp_path, said):
    with said("only 2 of its 3 cycles"):
        trainer = fit(tmp_path, ProfilerSchedule(wait=0, warmup=2, active=3, repeat=2))
    assert len(Run(trainer).cycles) == 2


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_run_that_ends_inside_a_window_keeps_what_was_recorded(tmp_path, error):
    model, logger = FailsAt(4, error("stop")), CSVLogger(tmp_path)
    with pytest.raises((error, SystemExit)):
        fit(tmp_path, ProfilerSchedule(wait=2, warmup=0, active=9), model=model, logger=logger)
    run = Run(logger)
    assert run.trace().numbers == [2, 3, 4]
    assert not torch._C._autograd._profiler_enabled()


def test_a_users_profiler_around_the_fit_is_left_alone(tmp_path, said):
    with torch.profiler.profile() as theirs, said("Only one profiler can record"):
        trainer = fit(tmp_path, ProfilerSchedule(wait=1, warmup=0, active=2))
    assert "aten::linear" in {event.key for event in theirs.key_averages()}
    run = Run(trainer)
    assert run.cycles == []
    assert "profiler-busy" in run.notes


def test_a_users_profiler_that_waits_in_its_schedule_is_left_alone(tmp_path, said):
    class Theirs(Callback):
        def on_train_start(self, trainer, pl_module):
            options = torch.profiler.schedule(wait=3, warmup=2, active=2)
            self.profiler = torch.profiler.profile(schedule=options)
            self.profiler.start()

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.profiler.step()

        def on_train_end(self, trainer, pl_module):
            self.profiler.stop()

    theirs = Theirs()
    with said("waits in its schedule"):
        trainer = fit(tmp_path, theirs, ProfilerSchedule(wait=2, warmup=1, active=6))
    assert theirs.profiler.key_averages()
    assert Run(trainer).cycles == []


def test_a_profiler_that_begins_during_a_window_gets_its_trace_and_ends_ours(tmp_path, said):
    class Nested(BoringModel):
        def training_step(self, batch, batch_idx):
            with torch.profiler.profile() as self.theirs:
                return super().training_step(batch, batch_idx)

    model = Nested()
    with said("began during a cycle"):
        trainer = fit(tmp_path, ProfilerSchedule(wait=2, warmup=1, active=3), model=model)
    assert "aten::linear" in {event.key for event in model.theirs.key_averages()}
    assert Run(trainer).disabled == []


def test_lightnings_own_torch_profiler_comes_first(tmp_path, said):
    with said("Lightning's own PyTorchProfiler"):
        trainer = fit(
            tmp_path,
            ProfilerSchedule(wait=1, warmup=0, active=2),
            profiler=PyTorchProfiler(dirpath=tmp_path, filename="theirs"),
        )
    assert Run(trainer).cycles == []


def test_steps_that_the_profiler_slows_down_are_marked(tmp_path):
    timer = PhaseTimer(console=False)
    run = Run(fit(tmp_path, timer, ProfilerSchedule(wait=3, warmup=1, active=2)))
    profiled = [n for n, flags in enumerate(run.session.columns["flags"]) if flags & PROFILED]
    # Step 2 bears the profiler's making, 3 the warm-up, 5 the stop and the export.
    assert profiled == [2, 3, 4, 5]
    cost = run.session.columns["part/callbacks/GpuProfCallback"]
    assert {n for n in range(12) if cost[n] > 1_000_000} <= set(profiled)


def test_mps_is_refused_with_what_goes_on():
    with pytest.raises(ConfigError, match=r"Apple's MPS.*PhaseTimer and DeferredLoss work"):
        refuse_device("mps")
    refuse_device("cuda")


@pytest.mark.parametrize("timer", [True, False], ids=["timed", "alone"])
def test_cycles_that_are_far_apart_come_at_their_steps_over_epochs(tmp_path, timer):
    cycles = ProfilerSchedule(wait=35, warmup=1, active=1, repeat=1)
    parts = [PhaseTimer(console=False), cycles] if timer else [cycles]

    run = Run(fit(tmp_path, *parts, max_epochs=2, limit_train_batches=30))

    assert [(one.first_step, one.last_step) for one in run.cycles] == [(36, 36), (38, 38)]


@pytest.mark.parametrize(
    ("settings", "teardown", "said"),
    [
        ({}, None, None),
        ({"teardown": "auto"}, None, None),
        ({"teardown": "on"}, object(), "a later window might lack its GPU events"),
        ({"capture_range": True}, None, "leaves recording to nsys or ncu"),
    ],
)
def test_no_window_is_opened_behind_the_last_if_cupti_is_detached_there(settings, teardown, said):
    schedule = ProfilerSchedule(**settings, captures=True)
    assert "has not begun" in (schedule.no_window() or "") or "capture_range" in settings
    schedule._recordings = SimpleNamespace(teardown=teardown)
    schedule._trainer = schedule._step_calls = object()
    reason = schedule.no_window()
    assert reason is None if said is None else said in reason
