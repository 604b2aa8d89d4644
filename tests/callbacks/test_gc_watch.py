import gc

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.analysis.run.spikes import GC_NOTE
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Note


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


def fit(tmp_path, model):
    trainer = Trainer(
        max_epochs=1,
        limit_train_batches=8,
        limit_val_batches=0,
        callbacks=[GpuProfCallback(console=False)],
        logger=CSVLogger(tmp_path),
    )
    try:
        trainer.fit(model)
    finally:
        (session,) = read_run(trainer.loggers[0].log_dir)[0].sessions
        trainer.notes = {n.step: n.value for n in session.all(Note) if n.name == GC_NOTE}
    return trainer.notes


def test_the_steps_that_collect_are_noted_with_what_it_took(tmp_path):
    before = list(gc.callbacks)
    notes = fit(tmp_path, Collects())
    assert {2, 5} <= notes.keys()
    assert all(taken_ns > 0 for taken_ns in notes.values())
    assert gc.callbacks == before


def test_nothing_is_left_behind_when_training_fails(tmp_path):
    before = list(gc.callbacks)
    with pytest.raises(RuntimeError, match="boom"):
        fit(tmp_path, Collects(fails=True))
    assert gc.callbacks == before
