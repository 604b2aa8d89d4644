"""Settings of the profiler window: quiet, uncompiled, for another profiler, and its forecast."""

from collections import Counter

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.demos.boring_classes import BoringModel
from profiled_runs import Marked, Run, fit
from torch.profiler import record_function
from training_fixtures import FailsAt

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.callbacks import profiler_schedule
from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.callbacks.profiler_schedule import ProfilerSchedule
from lightning_gpuprof.capture.recordings import TraceForecast
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.schema import Note
from lightning_gpuprof.schedule import EPOCH_SCHEDULE, Schedule


class Loud(Callback):
    """Does with each batch, and at each checkpoint, what a trace shows."""

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        with record_function("part:callback:0"):
            torch.ones(3) + 1

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        with record_function("part:checkpoint:0"):
            pass


@pytest.mark.parametrize("pauses", [True, False])
@pytest.mark.parametrize("quiet", [True, False])
def test_a_quiet_window_holds_the_training_alone_or_says_what_else(
    tmp_path, monkeypatch, quiet, pauses
):
    monkeypatch.setattr(profiler_schedule, "CAN_PAUSE", pauses)  # not before torch 2.5
    trainer = fit(
        tmp_path,
        PhaseTimer(console=False),
        Loud(),
        ModelCheckpoint(tmp_path / "checkpoints", every_n_train_steps=4),
        ProfilerSchedule(wait=2, warmup=1, active=6, quiet_window=quiet),
        model=Marked(),
        val_check_interval=4,
        limit_val_batches=1,
        enable_checkpointing=True,
    )
    run = Run(trainer)
    kept_out = quiet and pauses
    (cycle,), trace = run.cycles, run.trace()
    assert cycle.quiet is kept_out
    assert trace.numbers == [3, 4, 5, 6, 7, 8]
    found = Counter(e["name"].split(":")[1] for e in trace.events if e["name"].startswith("part:"))
    assert {found[name] for name in ("fetch", "forward", "backward", "optimizer")} == {6}
    assert [found[name] for name in ("validation", "checkpoint", "callback")] == (
        [0, 0, 0] if kept_out else [2, 2, 6]
    )


def compiled(ran):
    """Return a model with a compiled function that notes the step whenever its graph runs."""

    class Compiled(BoringModel):
        def __init__(self):
            super().__init__()
            self.compiled = torch.compile(lambda x: x.sin() + 1, backend=self.backend)

        def backend(self, graph, inputs):
            def run(*arguments):
                ran.append(self.trainer.global_step)
                return graph(*arguments)

            return run

        def training_step(self, batch, batch_idx):
            return super().training_step(self.compiled(batch), batch_idx)

    return Compiled()


@pytest.mark.parametrize("setting", ["keep", "eager"])
def test_compiled_code_runs_uncompiled_in_the_window_alone(tmp_path, said, setting):
    torch._dynamo.reset()
    ran = []
    with said("arithmetic of its steps may differ" if setting == "eager" else ""):
        trainer = fit(
            tmp_path,
            ProfilerSchedule(wait=4, warmup=1, active=3, compiled=setting),
            model=compiled(ran),
        )
    uncompiled = {4, 5, 6, 7} if setting == "eager" else set()
    assert set(range(12)) - set(ran) == uncompiled
    assert Run(trainer).trace().numbers == [5, 6, 7]


def test_an_error_in_the_window_leaves_the_program_compiled(tmp_path):
    ran, model = [], FailsAt(5, ValueError("planted"))
    layer = torch.compile(torch.nn.Linear(2, 2), backend=lambda graph, _: ran.append(1) or graph)
    with pytest.raises(ValueError, match="planted"):
        fit(tmp_path, ProfilerSchedule(wait=3, active=3, compiled="eager"), model=model)
    layer(torch.ones(2))
    assert ran == [1]


def test_a_range_for_another_profiler_is_refused_on_a_cpu(tmp_path):
    with pytest.raises(ConfigError, match="this run trains on cpu"):
        fit(tmp_path, ProfilerSchedule(wait=3, active=3, capture_range=True))


def test_another_profiler_is_told_when_to_record(tmp_path, monkeypatch):
    told = []

    class Steps(BoringModel):
        def training_step(self, batch, batch_idx):
            told.append(batch_idx)
            return super().training_step(batch, batch_idx)

    for name in ("start", "stop"):
        monkeypatch.setattr(torch.cuda.profiler, name, lambda name=name: told.append(name))
    monkeypatch.setattr(torch.cuda.nvtx, "range_push", told.append)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: told.append("end"))
    monkeypatch.setattr(profiler_schedule, "refuse_device", lambda *_, **__: None)
    schedule = ProfilerSchedule(wait=2, warmup=1, active=2, capture_range=True)
    run = Run(fit(tmp_path, PhaseTimer(console=False), schedule, model=Steps()))
    steps = ["ProfilerStep#3", 3, "end", "ProfilerStep#4", 4, "end"]
    assert told == [0, 1, 2, "start", *steps, "stop", *range(5, 12)]
    assert run.cycles == []
    assert "steps 3 to 4 were left to another profiler" in run.notes["no-trace"].message


def test_phases_are_nvtx_ranges_that_are_nested(tmp_path, monkeypatch):
    ranges, open_ranges = [], []

    def push(name):
        ranges.append((*open_ranges, name))
        open_ranges.append(name)

    monkeypatch.setattr(torch.cuda.nvtx, "range_push", push)
    monkeypatch.setattr(torch.cuda.nvtx, "range_pop", lambda: open_ranges.pop())
    options = {"trace": False, "report": False, "console": False, "lines": False}
    fit(tmp_path, GpuProfCallback(nvtx=True, **options), limit_val_batches=1, max_steps=2)
    assert open_ranges == []
    count = Counter(ranges)
    assert count["optimizer_step",] == count["optimizer_step", "forward"] == 2
    assert count["optimizer_step", "backward"] == 2
    assert any(one[-1] == "validation" for one in ranges)


def test_without_nvtx_it_is_refused(tmp_path):
    if torch.version.cuda or torch.version.hip:
        pytest.skip("this torch has it")
    with pytest.raises(ConfigError, match="built for CUDA or ROCm"):
        fit(tmp_path, PhaseTimer(nvtx=True))


def forecasts(run):
    return [one.message for one in run.session.all(Note) if one.name == "trace-forecast"]


@pytest.mark.parametrize(
    "schedule",
    [
        {"unit": "epoch", "wait": 1, "warmup": 1, "active": 2, "repeat": 1},
        {"unit": "step", "wait": 5, "warmup": 1, "active": 24, "repeat": 1},
    ],
)
@pytest.mark.parametrize("timer", [True, False], ids=["timed", "alone"])
def test_each_window_has_a_forecast_the_first_by_one_recorded_step(tmp_path, schedule, timer):
    parts = [PhaseTimer(console=False)] * timer
    run = Run(fit(tmp_path, *parts, ProfilerSchedule(**schedule), max_epochs=7))
    assert len(run.cycles) == 2
    first, second = forecasts(run)
    assert "records 24 steps: its trace will have about" in first
    assert all("times as long." in one for one in (first, second))
    assert run.files == sorted(cycle.trace_file for cycle in run.cycles)


def test_the_default_window_and_short_ones_have_no_step_recorded_before_them(tmp_path):
    run = Run(fit(tmp_path, ProfilerSchedule(wait=5, active=3, repeat=0)))
    assert forecasts(run) == []


@pytest.mark.parametrize(
    ("schedule", "per_unit", "change"),
    [
        (EPOCH_SCHEDULE, 100, "set active=2, or"),
        (EPOCH_SCHEDULE, 400, "set unit='step', active=250, or"),
        (Schedule("step", 10, 1, 300, 0), 1, "set active=250, or"),
        (Schedule("step", 10, 1, 250, 0), 1, None),
    ],
)
def test_above_500_mb_a_smaller_window_is_proposed(schedule, per_unit, change):
    times = iter([0, 1_000, 3_000])
    forecast = TraceForecast(schedule, per_unit, explicit=True, now=times.__next__)
    forecast.begin_step(plain=False)
    forecast.begin_step(plain=True)
    assert forecast.text() is None
    forecast.add_measurement(2_000_000, 1, 2_500)
    text = forecast.text()
    assert f"records {schedule.active * per_unit} steps" in text
    assert "each step takes 2.5 times as long" in text
    assert ("Viewers fail above 500 MB" in text) is (change is not None)
    assert change is None or change in text
