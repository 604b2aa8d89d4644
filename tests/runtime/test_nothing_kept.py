import gc
import weakref

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from training_fixtures import FailsAt

from lightning_gpuprof import GpuProfCallback


def train(model, folder):
    trainer = Trainer(
        logger=CSVLogger(folder),
        max_epochs=1,
        limit_train_batches=6,
        limit_val_batches=1,
        callbacks=[GpuProfCallback(console=False, trace=False, report=False, lines=False)],
    )
    try:
        trainer.fit(model)
    except ValueError:
        pass
    return weakref.ref(trainer)


@pytest.mark.parametrize("fails_at", [None, 4])
def test_a_trainer_that_has_fitted_can_go(tmp_path, fails_at):
    trainer = train(FailsAt(fails_at, ValueError("planted")), tmp_path)
    gc.collect()
    assert trainer() is None
