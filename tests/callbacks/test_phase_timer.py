import copy
import pickle
import subprocess
import sys

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import EarlyStopping, GradientAccumulationScheduler
from lightning.pytorch.profilers import AdvancedProfiler, PyTorchProfiler, SimpleProfiler
from lightning.pytorch.trainer import setup
from lightning.pytorch.utilities import CombinedLoader

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import StepFlag


@pytest.fixture
def timer(clock):
    return PhaseTimer(window=4, console=False, clock=clock)


@pytest.fixture
def check(planted, clock, timer):
    """All that was planted is found in its own phase, and nothing else is."""

    def checked(number=-1, *, planted_before=()):
        measured = planted.sessions(timer)[number]
        measured.check_sums()
        expected = planted.planted_by_phase(clock)
        for phase, delay in dict(planted_before).items():
            expected[phase] -= delay
        assert measured.phase_ns() == {name: ns for name, ns in expected.items() if ns}
        return measured

    return checked


def test_every_planted_delay_is_charged_to_its_own_phase_and_name(
    planted, clock, timer, check, tmp_path
):
    planted.fit(timer, clock, tmp_path, val_check_interval=3)

    measured = check()
    assert measured.steps == planted.STEPS
    apart = (Phase.GARBAGE_COLLECTION, Phase.OTHER)
    assert set(measured.phase_ns()) == {phase.value for phase in Phase if phase not in apart}
    for name in ("SlowCallback", "SlowLogger", "ModelCheckpoint"):
        phase = next(phase for phase, part in clock.planted if part == name)
        assert measured.part_ns(f"{phase}/{name}") == clock.planted[phase, name]


def test_real_delays_are_charged_to_their_phases_too(planted, tmp_path):
    clock = planted.RealClock()
    timer = PhaseTimer(window=4, console=False, clock=clock)

    planted.fit(timer, clock, tmp_path)

    measured = planted.sessions(timer)[0]
    measured.check_sums()
    for phase, delay in planted.planted_by_phase(clock).items():
        assert measured.phase_ns()[phase] >= delay


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"max_epochs": 3}, id="several epochs"),
        pytest.param({"accumulate_grad_batches": 4}, id="accumulation"),
        pytest.param({"overfit_batches": 2, "max_epochs": 2}, id="overfit_batches"),
        pytest.param({"fast_dev_run": 3}, id="fast_dev_run"),
        pytest.param({"barebones": True}, id="barebones"),
        pytest.param({"limit_val_batches": 0}, id="no validation"),
        pytest.param({"limit_train_batches": 0}, id="no training"),
        pytest.param({"max_steps": 4, "max_epochs": -1}, id="max_steps"),
        pytest.param({"gradient_clip_val": 0.5}, id="clipping"),
        pytest.param({"check_val_every_n_epoch": 2, "max_epochs": 4}, id="validation every other"),
        pytest.param({"detect_anomaly": True}, id="anomaly detection"),
        pytest.param({"reload_dataloaders_every_n_epochs": 1, "max_epochs": 2}, id="reloading"),
    ],
)
def test_phases_add_up_to_the_wall_time(planted, clock, timer, check, tmp_path, options):
    planted.fit(timer, clock, tmp_path, **options)

    check()


def test_a_changing_accumulation_adds_up(planted, clock, timer, check, tmp_path):
    scheduler = GradientAccumulationScheduler({0: 1, 1: 3})

    planted.fit(timer, clock, tmp_path, callbacks=[scheduler], max_epochs=2)

    assert check().steps == 2 * planted.STEPS


def test_data_workers_started_in_each_epoch_are_data_wait(planted, clock, timer, check, tmp_path):
    class Model(planted.Model):
        def train_dataloader(self):
            return self.loader(planted.Data(self.clock), num_workers=1)

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=3, limit_val_batches=0)

    measured = check()
    starts = measured.columns["flags"] & StepFlag.EPOCH_START
    assert measured.steps == 3 * planted.STEPS
    assert starts.astype(bool).nonzero()[0].tolist() == [0, planted.STEPS, 2 * planted.STEPS]


def test_starting_workers_is_named(planted, clock, timer, tmp_path, monkeypatch):
    class Model(planted.Model):
        def train_dataloader(self):
            loader = self.loader(planted.Data(self.clock))
            begin = type(loader).__iter__

            class Loader(type(loader)):
                def __iter__(self):
                    clock.plant(Phase.DATA_WAIT, "worker_startup")
                    return begin(self)

            loader.__class__ = Loader
            return loader

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=3)

    measured = planted.sessions(timer)[0]
    planted_ns = clock.planted["data_wait", "worker_startup"]
    assert measured.part_ns("data_wait/worker_startup") == planted_ns
    assert {s.where for s in measured.outside if s.part_ns.get("data_wait/worker_startup")} == {
        "setup",
        "epoch_start",
    }


def test_an_iterable_without_length_has_one_step_per_batch(planted, clock, timer, check, tmp_path):
    class Model(planted.Model):
        def train_dataloader(self):
            return self.loader(planted.Stream(self.clock))

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=2)

    assert check().steps == 2 * planted.STEPS


def test_a_step_that_takes_the_iterator_itself_begins_at_its_batch_start(
    planted, clock, timer, check, tmp_path
):
    class Model(planted.Model):
        def training_step(self, dataloader_iter):
            batch, *_ = next(dataloader_iter)
            self.clock.plant(Phase.FORWARD)
            return self.loss(batch)

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=2)

    measured = check()
    assert measured.steps == 2 * planted.STEPS
    assert (measured.columns["phase/data_wait"] > 0).all()


def test_combined_loaders_add_up(planted, clock, timer, check, tmp_path):
    class Model(planted.Model):
        def train_dataloader(self):
            loaders = {name: self.loader(planted.Data(self.clock)) for name in "ab"}
            return CombinedLoader(loaders, "min_size")

        def training_step(self, batch, batch_idx):
            return super().training_step(batch["a"] + batch["b"], batch_idx)

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    measured = check()
    assert measured.columns["samples"].tolist() == [planted.BATCH] * planted.STEPS


def test_a_closure_that_runs_many_times_is_not_optimizer_time(
    planted, clock, timer, check, tmp_path
):
    class Slow(torch.optim.LBFGS):
        def step(self, closure):
            clock.plant(Phase.OPTIMIZER_STEP)
            return super().step(closure)

    class Model(planted.Model):
        def configure_optimizers(self):
            return Slow(self.parameters(), lr=1e-3, max_iter=3, tolerance_change=0)

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    measured = check()
    assert clock.planted["forward", None] > measured.steps * 1_000
    assert (measured.columns["phase/optimizer_step"] > 0).all()


def test_two_optimizers_by_hand_are_timed_like_automatic_ones(
    planted, clock, timer, check, tmp_path
):
    class Gan(planted.Model):
        automatic_optimization = False

        def __init__(self, clock):
            super().__init__(clock)
            self.other = torch.nn.Linear(32, 2)

        def configure_optimizers(self):
            return [SlowGan(clock, part.parameters()) for part in (self.layer, self.other)]

        def training_step(self, batch, batch_idx):
            for optimizer, part in zip(self.optimizers(), (self.layer, self.other), strict=True):
                clock.plant(Phase.FORWARD)
                loss = part(batch).mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                self.clip_gradients(optimizer, gradient_clip_val=0.5)
                optimizer.step()

    class SlowGan(planted.Slow):
        def zero_grad(self, set_to_none=True):
            clock.plant(Phase.ZERO_GRAD)
            super().zero_grad(set_to_none)

    planted.fit(timer, clock, tmp_path, model=Gan(clock))

    measured = check()
    for phase in ("forward", "zero_grad", "backward", "optimizer_step"):
        assert (measured.columns[f"phase/{phase}"] > 0).all()


def test_batches_on_which_no_optimizer_steps_have_no_time_of_it(planted, clock, timer, tmp_path):
    class Model(planted.Model):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.manual_backward(self.loss(batch))
            if batch_idx % 2:
                self.optimizers().step()

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    stepped = planted.sessions(timer)[0].columns["phase/optimizer_step"] > 0
    assert stepped.tolist() == [batch % 2 == 1 for batch in range(planted.STEPS)]


def test_clipping_by_hand_is_charged_to_clipping(planted, clock, timer, tmp_path, monkeypatch):
    class Model(planted.Model):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            self.manual_backward(self.loss(batch))
            self.clip_gradients(optimizer, gradient_clip_val=0.5)
            optimizer.step()

    real = torch.nn.utils.clip_grad_norm_

    def slow(*args, **kwargs):
        clock.plant(Phase.CLIP_GRADIENTS, "clip")
        return real(*args, **kwargs)

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", slow)
    planted.fit(timer, clock, tmp_path, model=Model(clock))

    measured = planted.sessions(timer)[0]
    assert measured.phase_ns()["clip_gradients"] == clock.planted["clip_gradients", "clip"] > 0


def test_a_resumed_run_adds_up_and_goes_on_counting_batches(
    planted, clock, timer, tmp_path, repeated
):
    planted.fit(timer, clock, tmp_path, max_steps=3)
    before = planted.planted_by_phase(clock)
    checkpoint = next((tmp_path / "checkpoints").glob("*.ckpt"))
    again = PhaseTimer(window=4, console=False, clock=clock, log_dir=str(tmp_path / "again"))

    planted.fit(again, clock, tmp_path, call_options={"ckpt_path": checkpoint})

    measured = planted.sessions(again)[0]
    measured.check_sums()
    expected = {k: v - before.get(k, 0) for k, v in planted.planted_by_phase(clock).items()}
    assert measured.phase_ns() == {name: ns for name, ns in expected.items() if ns}
    assert measured.columns["batch_idx"].tolist() == list(range(3 - repeated, 6))


def test_early_stopping_ends_in_good_order(planted, clock, timer, check, tmp_path):
    stopping = EarlyStopping("val_loss", patience=0, min_delta=100.0)

    planted.fit(timer, clock, tmp_path, callbacks=[stopping], max_epochs=9)

    measured = check()
    assert measured.steps < 9 * planted.STEPS
    assert measured.end.status == "finished"


@pytest.mark.parametrize(
    ("error", "status", "raised"),
    [
        (ValueError("boom"), "exception", ValueError),
        (KeyboardInterrupt(), "interrupted", SystemExit),
    ],
)
def test_a_step_that_fails_is_kept_and_marked(
    planted, clock, timer, check, tmp_path, error, status, raised
):
    class Model(planted.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                self.clock.plant(Phase.FORWARD)
                raise error
            return super().training_step(batch, batch_idx)

    profiler = SimpleProfiler()
    trainer = planted.make_trainer(timer, clock, tmp_path, profiler=profiler)
    with pytest.raises(raised):
        trainer.fit(Model(clock))

    measured = check()
    assert measured.steps == 3
    unfinished = measured.columns["flags"] & StepFlag.UNFINISHED
    assert unfinished.astype(bool).tolist() == [False, False, True]
    assert measured.end.status == status
    assert trainer.profiler is profiler


def test_an_exception_between_start_and_stop_does_not_shift_what_follows(
    planted, clock, timer, check, tmp_path
):
    class Model(planted.Model):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            try:
                self.optimizers().step(closure=self.fail)  # leaves `optimizer_step` started
            except ValueError:
                self.clock.plant(Phase.OPTIMIZER_STEP)  # still inside it, as far as can be told

        def fail(self):
            raise ValueError

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    assert check().steps == planted.STEPS


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_evaluation_is_a_session_of_its_own(planted, clock, timer, check, tmp_path, stage):
    class Model(planted.Model):
        def val_dataloader(self):
            return self.loader(planted.Data(self.clock))

        test_dataloader = predict_dataloader = val_dataloader

    trainer = planted.make_trainer(timer, clock, tmp_path)
    getattr(trainer, stage)(Model(clock), **({} if stage == "predict" else {"verbose": False}))

    measured = check()
    assert measured.session.start.stage == stage
    assert measured.steps == planted.STEPS
    assert measured.columns["batch_idx"].tolist() == list(range(planted.STEPS))
    assert measured.columns["samples"].tolist() == [planted.BATCH] * planted.STEPS


def test_two_fits_and_a_validation_are_three_sessions(planted, clock, timer, tmp_path):
    trainer = planted.make_trainer(timer, clock, tmp_path)
    model = planted.Model(clock)

    trainer.fit(model)
    trainer.fit_loop.max_epochs = 2
    trainer.fit(model)
    trainer.validate(model, verbose=False)

    measured = planted.sessions(timer)
    assert [m.session.start.stage for m in measured] == ["fit", "fit", "validate"]
    for session in measured:
        session.check_sums()


def test_steps_carry_what_was_special_about_them(planted, clock, tmp_path):
    timer = PhaseTimer(window=4, console=False, clock=clock, warmup=2)

    planted.fit(timer, clock, tmp_path, val_check_interval=2)

    flags = planted.sessions(timer)[0].columns["flags"]

    def flagged(flag):
        return (flags & flag).astype(bool).nonzero()[0].tolist()

    assert flagged(StepFlag.WARMUP) == [0, 1]
    assert flagged(StepFlag.VALIDATION) == [1, 3, 5]
    assert flagged(StepFlag.EPOCH_START) == [0]
    assert flagged(StepFlag.CHECKPOINT) == [2, 5]
    assert flagged(StepFlag.LOGGED) == [1, 3, 5]
    assert flagged(StepFlag.UNFINISHED | StepFlag.COMPILED | StepFlag.PROFILED) == []


def test_steps_in_which_torch_compile_compiled_are_marked(planted, clock, timer, tmp_path):
    class Model(planted.Model):
        def training_step(self, batch, batch_idx):
            if batch_idx == 2:
                torch.compile(self.layer, backend="eager")(batch)
            return super().training_step(batch, batch_idx)

    planted.fit(timer, clock, tmp_path, model=Model(clock))

    compiled = planted.sessions(timer)[0].columns["flags"] & StepFlag.COMPILED
    assert compiled.astype(bool).tolist() == [False, False, True, False, False, False]


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


def test_a_profiler_with_its_own_context_is_used_as_it_is(planted, clock, timer, tmp_path):
    class Own(SimpleProfiler):
        def __init__(self):
            super().__init__()
            self.entered = []

        def profile(self, action_name):
            self.entered.append(action_name)
            return super().profile(action_name)

    own = Own()
    planted.fit(timer, clock, tmp_path, profiler=own)

    assert own.entered.count("run_training_batch") == planted.STEPS
    assert len(own.recorded_durations["run_training_batch"]) == planted.STEPS


def test_lightnings_own_torch_profiler_still_writes_its_trace(planted, clock, timer, tmp_path):
    own = PyTorchProfiler(dirpath=tmp_path, filename="own", schedule=None)

    planted.fit(timer, clock, tmp_path, profiler=own)

    assert [path.name for path in tmp_path.glob("*own*.json")]
    assert planted.sessions(timer)[0].steps == planted.STEPS


def test_a_trainer_that_keeps_its_profiler_is_timed_by_hooks(
    planted, clock, timer, tmp_path, monkeypatch
):
    kept = SimpleProfiler()
    monkeypatch.setattr(Trainer, "profiler", property(lambda self: kept), raising=False)
    monkeypatch.setattr(setup, "_init_profiler", lambda trainer, profiler: None)
    trainer = planted.make_trainer(timer, clock, tmp_path, max_epochs=2)
    clock.off.add("SlowCallback")  # a callback before the timer is part of the hook it delays

    trainer.fit(planted.Model(clock))

    measured = planted.sessions(timer)[0]
    measured.check_sums()
    assert measured.session.start.timer == "hooks"
    assert "host_to_device" not in measured.session.start.phases
    assert measured.steps == 2 * planted.STEPS
    planted_ns, found = planted.planted_by_phase(clock), measured.phase_ns()
    assert found["backward"] == planted_ns["backward"]
    assert found["zero_grad"] == planted_ns["zero_grad"]
    assert set(found) <= set(measured.session.start.phases)
    assert len(trainer.callbacks) == 3


def test_everything_touched_is_put_back(planted, clock, timer, tmp_path):
    trainer = planted.make_trainer(timer, clock, tmp_path)
    touched = [
        trainer.logger,
        trainer.fit_loop,
        trainer.fit_loop.epoch_loop.val_loop,
        trainer.strategy,
        trainer.precision_plugin,
    ]
    before = [set(vars(thing)) for thing in touched]
    profiler = trainer.profiler

    trainer.fit(planted.Model(clock))

    methods = {"log_metrics", "save", "setup_data", "run", "backward", "clip_gradients"}
    for thing, names in zip(touched, before, strict=True):
        assert set(vars(thing)) & methods == names & methods
    assert trainer.profiler is profiler


def test_the_callback_can_be_copied_and_pickled_while_it_runs(planted, clock, tmp_path):
    copies = []

    class Copying(Callback):
        def on_train_batch_end(self, trainer, *args):
            copies.append(copy.deepcopy(trainer.callbacks[1]))
            copies.append(pickle.loads(pickle.dumps(PhaseTimer())))

    timer = PhaseTimer(window=2, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path, callbacks=[Copying()])

    assert len(copies) == 2 * planted.STEPS
    assert copies[0].window == 2
    assert copies[0]._run is None


def test_weights_are_the_same_to_the_bit(planted, clock, timer, tmp_path):
    def weights(*callbacks):
        torch.manual_seed(0)
        module = planted.Model(clock)
        trainer = planted.make_trainer(
            callbacks[0] if callbacks else Callback(), clock, tmp_path, max_epochs=2
        )
        trainer.fit(module)
        return module.layer.weight.detach()

    assert torch.equal(weights(timer), weights())


def test_a_failing_hook_disables_the_timer_and_training_goes_on(
    planted, clock, timer, tmp_path, monkeypatch
):
    trainer = planted.make_trainer(timer, clock, tmp_path)
    profiler = trainer.profiler
    monkeypatch.setattr(
        "lightning_gpuprof.callbacks.timing.timing_run.TimingRun._begin", lambda *_: 1 / 0
    )

    with pytest.warns(RuntimeWarning, match="PhaseTimer failed and is off"):
        trainer.fit(planted.Model(clock))

    assert trainer.state.finished
    assert trainer.profiler is profiler
    records = planted.sessions(timer)[0].session.records
    assert [r.error for r in records if type(r).__name__ == "ProbeDisabled"] == [
        "ZeroDivisionError: division by zero"
    ]


@pytest.mark.parametrize(
    "fails", ["tap.tapping.Tapping._time_fit", "timing.timing_run.StepTimeline.stop"]
)
def test_the_trainer_is_put_back_where_the_timer_fails_at_its_begin_or_end(
    planted, clock, timer, tmp_path, monkeypatch, fails
):
    trainer = planted.make_trainer(timer, clock, tmp_path)
    profiler, logger = trainer.profiler, set(vars(trainer.logger))
    monkeypatch.setattr(f"lightning_gpuprof.callbacks.{fails}", lambda *_, **__: 1 / 0)

    with pytest.warns(RuntimeWarning, match="PhaseTimer failed and is off"):
        trainer.fit(planted.Model(clock))

    assert trainer.state.finished
    assert trainer.profiler is profiler
    assert "log_metrics" not in set(vars(trainer.logger)) - logger


def test_a_window_shows_one_line_whose_shares_add_up(planted, clock, tmp_path, caplog):
    timer = PhaseTimer(window=3, clock=clock)

    with caplog.at_level("INFO", logger="lightning_gpuprof"):
        planted.fit(timer, clock, tmp_path)

    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("[PROFILE]")]
    assert len(lines) == 2
    assert lines[0].endswith("/3 steps")
    shares = [float(part.split()[-1].rstrip("%")) for part in lines[0].split(" | ")[:-1]]
    assert sum(shares) == pytest.approx(100.0, abs=0.001)


def test_scalars_go_to_every_logger_under_the_users_step_numbers(planted, clock, tmp_path):
    logged = []

    class Recording(planted.SlowLogger):
        def log_metrics(self, metrics, step=None):
            logged.append((step, sorted(metrics)))

    loggers = [Recording(clock), Recording(clock)]
    timer = PhaseTimer(window=2, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path, logger=loggers)

    ours = [(step, names) for step, names in logged if names[0].startswith("gpuprof/")]
    theirs = [step for step, names in logged if not names[0].startswith("gpuprof/")]
    assert len(ours) == 2  # the clock stands still: the second window is too early
    assert "gpuprof/step_ms" in ours[0][1]
    assert ours[0][0] in range(max(theirs) + 1)


@pytest.mark.parametrize(("took_ms", "calls"), [(0, 3), (10, 2), (100, 1)])
def test_a_slow_logger_is_given_scalars_more_seldom(planted, clock, tmp_path, took_ms, calls):
    ours = []

    class Slow(planted.SlowLogger):
        def log_metrics(self, metrics, step=None):
            if not any(name.startswith("gpuprof/") for name in metrics):
                clock.now_ns += 1_500_000_000  # once in two steps, as long as a window
                return
            ours.append(step)
            clock.now_ns += took_ms * 1_000_000

    timer = PhaseTimer(window=2, console=False, clock=clock)
    planted.fit(timer, clock, tmp_path, logger=Slow(clock))

    assert len(ours) == calls


def test_steps_carry_the_epoch_and_the_index_of_their_batch(planted, clock, timer, tmp_path):
    planted.fit(timer, clock, tmp_path, max_epochs=2)

    columns = planted.sessions(timer)[0].columns
    assert columns["step"].tolist() == list(range(2 * planted.STEPS))
    assert columns["epoch"].tolist() == [0] * planted.STEPS + [1] * planted.STEPS
    assert columns["batch_idx"].tolist() == list(range(planted.STEPS)) * 2


def test_skipped_epochs_and_batches_are_no_steps(planted, clock, timer, check, tmp_path):
    class Model(planted.Model):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 2 else None

    planted.fit(timer, clock, tmp_path, model=Model(clock), max_epochs=2)

    assert check().steps == 4


def test_callbacks_of_one_class_are_told_apart(planted, clock, timer, tmp_path):
    class Other(planted.SlowCallback):
        @property
        def state_key(self):
            return "second"

    Other.__name__ = "SlowCallback"
    planted.fit(timer, clock, tmp_path, callbacks=[Other(clock)])

    measured = planted.sessions(timer)[0]
    total = clock.planted["callbacks", "SlowCallback"]
    one, two = (measured.part_ns(f"callbacks/{n}") for n in ("SlowCallback", "SlowCallback#2"))
    assert one + two == total
    assert min(one, two) > 0


def test_the_lightning_that_was_imported_is_the_one_that_is_served():
    pytest.importorskip("pytorch_lightning")
    script = (
        "import pytorch_lightning; from lightning_gpuprof import PhaseTimer;"
        "assert issubclass(PhaseTimer, pytorch_lightning.Callback)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


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

    assert timer._output.timer == "tap"
    assert trainer.profiler.__class__.__name__ == "PassThroughProfiler"


def test_two_timers_in_one_trainer_are_refused(planted, clock, timer, tmp_path):
    with pytest.raises(ConfigError, match="two PhaseTimers"):
        planted.fit(timer, clock, tmp_path, callbacks=[PhaseTimer(clock=clock)])


@pytest.mark.parametrize("options", [{"window": 0}, {"warmup": -1}])
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigError, match="PhaseTimer"):
        PhaseTimer(**options)
