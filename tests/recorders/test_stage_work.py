import pytest
from lightning.pytorch import LightningDataModule, Trainer
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.callbacks.run_facts import RunFacts
from lightning_gpuprof.recorders.stage_work import StageWorkRecorder
from lightning_gpuprof.records.facts import StageWork
from lightning_gpuprof.records.reader import read_run


class Slow(BoringDataModule):
    """Takes a second for each stage, on a fake clock."""

    clock = None

    def setup(self, stage):
        self.clock.now_ns += 10**9
        super().setup(stage)


class Plain(LightningDataModule):
    def train_dataloader(self):
        return BoringModel().train_dataloader()


@pytest.fixture
def fit(tmp_path, clock):
    """Fit a data module twice in a row, and return what was recorded of each."""

    def fitted(data):
        recorder = RunFacts([StageWorkRecorder(clock=lambda: clock.now_ns)])
        clock.now_ns += 5
        options = {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 0}
        trainer = Trainer(logger=CSVLogger(tmp_path), callbacks=[recorder], **options)
        trainer.fit(BoringModel(), data)
        clock.now_ns += 7
        trainer.fit_loop.max_epochs = 2
        trainer.fit(BoringModel(), data)
        sessions = read_run(trainer.logger.log_dir)[0].sessions
        return [session.last(StageWork) for session in sessions]

    return fitted


def test_the_time_before_each_stage_is_recorded_with_the_hooks_of_its_data_module(fit, clock):
    data = Slow()
    data.clock = clock
    assert fit(data) == [
        StageWork("Slow", ("setup",), (10**9 + 5,)),
        StageWork("Slow", ("setup",), (10**9 + 5, 10**9 + 7)),
    ]


def test_a_data_module_without_such_hooks_is_left_out(fit):
    assert fit(Plain()) == [None, None]
