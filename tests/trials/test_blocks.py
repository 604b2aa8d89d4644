"""A Trainer that trains block by block, on a fake clock."""

import itertools
from contextlib import suppress

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from planted import FakeClock
from torch.utils.data import DataLoader

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.records.trials import ChangedSettings
from lightning_gpuprof.trials.blocks import BlockTraining, ProgramEnded

WARM, BLOCK = 4, 3


class Model(BoringModel):
    """Each training step takes 10, each validation 1000."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def training_step(self, batch, batch_idx):
        self.clock.now_ns += 10
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        self.clock.now_ns += 1000

    def train_dataloader(self):
        return DataLoader(RandomDataset(32, 10), batch_size=2)


@pytest.fixture
def trained(tmp_path):
    """Train some blocks; return what each of them said."""

    def train(settings=None, *, blocks=3, model=None, loaders=(), **options):
        clock, said = FakeClock(), []

        def ask(block):
            said.append(block)
            clock.now_ns += 10**6  # the other form's turn
            if len(said) > blocks:
                raise ProgramEnded
            return BLOCK

        trainer = Trainer(
            **{
                "max_epochs": 1,
                "accelerator": "cpu",
                "limit_val_batches": 1,
                "num_sanity_val_steps": 0,
                "logger": False,
                "enable_checkpointing": False,
                "enable_progress_bar": False,
                "enable_model_summary": False,
                "default_root_dir": tmp_path,
                "callbacks": [
                    BlockTraining(settings or ChangedSettings(), ask, warm=WARM, clock=clock)
                ],
            }
            | options
        )
        with suppress(ProgramEnded):
            trainer.fit(model or Model(clock), *loaders)
        return said

    return train


def test_blocks_have_the_steps_asked_for_without_pauses_and_validations(trained):
    first, *others = trained(max_epochs=1)  # an epoch has five batches
    assert (first.ns, first.steps, first.samples) == (20, 2, 4)
    assert first.first_step_ns == 10
    assert [(b.ns, b.steps, b.samples) for b in others] == [(30, 3, 6)] * 3
    assert len(first.losses) == WARM
    assert not others[0].losses
    assert first.memory_bytes > 10**7


def test_the_first_losses_depend_on_the_seed_alone(trained):
    def losses():
        torch.manual_seed(3)
        return trained(blocks=1)[0].losses

    assert losses() == losses()


def test_a_loader_is_changed_before_its_first_batch(trained):
    settings = ChangedSettings(data_loader={"batch_size": 5})
    assert trained(settings)[1].samples == 5 * BLOCK


def test_a_change_of_a_loader_that_is_none_is_refused(trained):
    batches = [torch.ones(1, 32)] * 9
    with pytest.raises(ConfigError, match="The program has no DataLoader"):
        trained(ChangedSettings(data_loader={"num_workers": 1}), loaders=[batches])


def test_lines_and_optimizers_are_changed_as_training_starts(trained):
    model = Model(FakeClock())
    model.log = None
    lines = ("model.log = model.log_dict = lambda *args, **options: None",)
    settings = ChangedSettings(lines=lines, optimizer={"foreach": True})
    trained(settings, model=model, blocks=0)
    assert model.log("loss", 1) is None
    assert model.optimizers().optimizer.param_groups[0]["foreach"] is True


def test_training_that_ends_by_itself_ends_the_program(trained):
    steps = itertools.count()

    class Ending(Model):
        def training_step(self, batch, batch_idx):
            self.trainer.should_stop = next(steps) >= 6
            return super().training_step(batch, batch_idx)

    assert len(trained(model=Ending(FakeClock()), blocks=9)) < 9
