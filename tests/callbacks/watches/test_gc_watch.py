import gc

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof import GpuProfCallback, PhaseTimer
from lightning_gpuprof.callbacks.watches.gc_watch import GcWatch
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import read_run

GARBAGE = Phase.GARBAGE_COLLECTION.value


class Collects(BoringModel):
    def __init__(self, *, fails=False):
        super().__init__()
        self.fails = fails

    def training_step(self, batch, batch_idx):
        if batch_idx in (2, 5):
            gc.collect()
        if self.fails and batch_idx == 6:
            raise RuntimeError("boom")
        return super().training_step(batch, batch_idx)

    def validation_step(self, batch, batch_idx):
        gc.collect()


def fit(tmp_path, model, callback=None, **options):
    trainer = Trainer(
        max_epochs=1,
        limit_train_batches=8,
        callbacks=[callback or GpuProfCallback(console=False)],
        logger=CSVLogger(tmp_path),
        **{"limit_val_batches": 0, **options},
    )
    try:
        trainer.fit(model)
    finally:
        sessions = read_run(trainer.loggers[0].log_dir)[0].sessions
    return sessions[0]


def sums_to_the_step(session):
    phases = sum(session.phase_ns(phase) for phase in Phase)
    return (phases == session.columns["dur_ns"]).all()


def test_the_steps_that_collect_have_it_as_a_phase_of_its_own(tmp_path):
    before = list(gc.callbacks)
    session = fit(tmp_path, Collects())
    taken = session.phase_ns(Phase.GARBAGE_COLLECTION)
    assert (taken[[2, 5]] > 0).all()
    assert (session.columns[f"part/{GARBAGE}/forward"] <= taken).all()
    assert sums_to_the_step(session)
    assert gc.callbacks == before


def test_a_collection_is_no_part_of_the_validation_that_it_falls_into(tmp_path):
    session = fit(tmp_path, Collects(), limit_val_batches=1, val_check_interval=4)
    taken = session.columns[f"part/{GARBAGE}/validation"]
    assert (taken[[3, 7]] > 0).all()
    assert sums_to_the_step(session)


def test_nothing_is_left_behind_when_training_fails(tmp_path):
    before = list(gc.callbacks)
    with pytest.raises(RuntimeError, match="boom"):
        fit(tmp_path, Collects(fails=True))
    assert gc.callbacks == before


def test_without_a_timer_there_is_nothing_to_charge(tmp_path):
    assert not fit(tmp_path, Collects(), GcWatch()).steps


def test_not_watched_is_not_measured(tmp_path):
    session = fit(tmp_path, Collects(), PhaseTimer(console=False))
    assert session.phase_ns(Phase.GARBAGE_COLLECTION) is None
