import pytest
import torch
from lightning.pytorch.utilities import CombinedLoader

from lightning_gpuprof.records.phases import Phase


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


def test_two_optimizers_by_hand_are_timed(planted, clock, timer, check, tmp_path):
    class Gan(planted.Model):
        automatic_optimization = False

        def __init__(self, clock):
            super().__init__(clock)
            self.other = torch.nn.Linear(32, 2)

        def configure_optimizers(self):
            return [planted.Slow(clock, part.parameters()) for part in (self.layer, self.other)]

        def training_step(self, batch, batch_idx):
            for optimizer, part in zip(self.optimizers(), (self.layer, self.other), strict=True):
                clock.plant(Phase.FORWARD)
                loss = part(batch).mean()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()

    planted.fit(timer, clock, tmp_path, model=Gan(clock))

    measured = check()
    for phase in ("forward", "backward", "optimizer_step"):
        assert (measured.columns[f"phase/{phase}"] > 0).all()
