"""The timer leaves the user's profiler, the Trainer and what is trained as they are."""

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.profilers import (
    AdvancedProfiler,
    PassThroughProfiler,
    PyTorchProfiler,
    SimpleProfiler,
)

from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run


@pytest.mark.parametrize("profiler", [SimpleProfiler, AdvancedProfiler])
def test_the_users_own_profiler_goes_on_working(planted, clock, timer, tmp_path, profiler):
    def actions(*callbacks):
        own = profiler()
        trainer = planted.make_trainer(
            callbacks[0] if callbacks else Callback(), clock, tmp_path, profiler=own
        )
        trainer.fit(planted.Model(clock))
        assert trainer.profiler is own
        names = own.recorded_durations if profiler is SimpleProfiler else own.profiled_actions
        return {name for name in names if "Callback]" not in name}

    assert actions(timer) == actions()


class SlowProfiler(PassThroughProfiler):
    """Takes time to begin and to end every action that the timer hands on to it."""

    def __init__(self, clock):
        super().__init__()
        self.clock, self.trainer, self.handed_on = clock, None, []

    def start(self, action_name):
        self.handed_on.append(self.trainer.profiler is not self)
        self.plant(self.handed_on[-1])

    def stop(self, action_name):
        self.plant(self.handed_on.pop() and self.trainer.profiler is not self)

    def plant(self, is_handed_on):
        if is_handed_on:
            self.clock.plant(Phase.CALLBACKS, "SlowProfiler")


@pytest.mark.parametrize("epochs", [1, 2])
def test_what_the_users_profiler_takes_is_a_part_of_its_own(
    planted, clock, timer, tmp_path, check, epochs
):
    own = SlowProfiler(clock)
    own.trainer = planted.make_trainer(timer, clock, tmp_path, profiler=own, max_epochs=epochs)
    own.trainer.fit(planted.Model(clock))
    planted_ns = clock.planted[Phase.CALLBACKS.value, "SlowProfiler"]
    assert check().part_ns("callbacks/SlowProfiler") == planted_ns > 0


def test_lightnings_own_torch_profiler_still_writes_its_trace(planted, clock, timer, tmp_path):
    own = PyTorchProfiler(dirpath=tmp_path, filename="own", schedule=None)

    planted.fit(timer, clock, tmp_path, profiler=own)

    assert [path.name for path in tmp_path.glob("*own*.json")]
    assert planted.sessions(timer)[0].steps == planted.STEPS


@pytest.mark.parametrize(
    "fails",
    ["run.TimingRun._begin_special", "attach.ProxyTiming._calls_of_loops", "run.StepTimeline.stop"],
)
def test_the_trainer_is_put_back_and_trains_on_wherever_the_timer_fails(
    planted, clock, timer, tmp_path, monkeypatch, fails, said
):
    trainer = planted.make_trainer(timer, clock, tmp_path)
    profiler, logger = trainer.profiler, set(vars(trainer.logger))
    monkeypatch.setattr(f"lightning_gpuprof.timing.{fails}", lambda *_, **__: 1 / 0)

    with said("PhaseTimer failed and is off"):
        trainer.fit(planted.Model(clock))

    assert trainer.state.finished
    assert trainer.profiler is profiler
    assert "log_metrics" not in set(vars(trainer.logger)) - logger
    records = planted.sessions(timer)[0].session.records
    assert [r.error for r in records if type(r).__name__ == "ProbeDisabled"] == [
        "ZeroDivisionError: division by zero"
    ]


def test_the_other_lightning_package_is_served_alike(clock, timer, tmp_path):
    other = pytest.importorskip("pytorch_lightning")
    boring = pytest.importorskip("pytorch_lightning.demos.boring_classes")
    try:
        other.Trainer(callbacks=[timer], default_root_dir=tmp_path, logger=False)
    except (TypeError, ValueError):
        pytest.skip("this pytorch_lightning refuses callbacks made with the package `lightning`")
    trainer = other.Trainer(
        max_epochs=1,
        limit_train_batches=3,
        limit_val_batches=1,
        callbacks=[timer],
        default_root_dir=tmp_path,
        logger=False,
    )

    trainer.fit(boring.BoringModel())

    assert read_run(timer._context.run_dir)[0].sessions[0].start.timer == "tap"
    assert trainer.profiler.__class__.__name__ == "PassThroughProfiler"
