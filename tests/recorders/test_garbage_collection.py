import gc

import pytest
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.records.phases import Phase

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


@pytest.fixture
def fit(session_of):
    def fitted(model, callback=None, **options):
        callback = callback or GpuProfCallback(console=False)
        return session_of(model, callback, limit_train_batches=8, **options)

    return fitted


def sums_to_the_step(session):
    phases = sum(session.phase_ns(phase) for phase in Phase)
    return (phases == session.columns["dur_ns"]).all()


def test_the_steps_that_collect_have_it_as_a_phase_of_its_own(fit):
    before = list(gc.callbacks)
    session = fit(Collects())
    taken = session.phase_ns(Phase.GARBAGE_COLLECTION)
    assert (taken[[2, 5]] > 0).all()
    assert (session.columns[f"part/{GARBAGE}/forward"] <= taken).all()
    assert sums_to_the_step(session)
    assert gc.callbacks == before


def test_a_collection_is_no_part_of_the_validation_that_it_falls_into(fit):
    session = fit(Collects(), limit_val_batches=1, val_check_interval=4)
    taken = session.columns[f"part/{GARBAGE}/validation"]
    assert (taken[[3, 7]] > 0).all()
    assert sums_to_the_step(session)


def test_nothing_is_left_behind_when_training_fails(fit):
    before = list(gc.callbacks)
    with pytest.raises(RuntimeError, match="boom"):
        fit(Collects(fails=True))
    assert gc.callbacks == before
