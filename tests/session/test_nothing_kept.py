import gc
import weakref

import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof import GpuProfCallback


class Fails(BoringModel):
    def training_step(self, batch, batch_idx):
        if batch_idx == 4:
            raise ValueError("planted")
        return super().training_step(batch, batch_idx)


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


@pytest.mark.parametrize("model", [BoringModel, Fails])
def test_a_trainer_that_has_fitted_can_go(tmp_path, model):
    trainer = train(model(), tmp_path)
    gc.collect()
    assert trainer() is None
