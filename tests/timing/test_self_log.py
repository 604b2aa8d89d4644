import pytest
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel

from lightning_gpuprof.callbacks.phase_timer import PhaseTimer
from lightning_gpuprof.records.reader import read_run


class InTraining(BoringModel):
    def training_step(self, batch, batch_idx):
        for number in range(20):
            self.log(f"value/{number}", float(number))
        return super().training_step(batch, batch_idx)


class InValidation(BoringModel):
    def validation_step(self, batch, batch_idx):
        for number in range(20):
            self.log(f"value/{number}", float(number))


@pytest.mark.parametrize(("model", "is_logging"), [(InTraining, True), (InValidation, False)])
def test_what_is_logged_in_validation_is_validations_own_time(tmp_path, model, is_logging):
    trainer = Trainer(
        default_root_dir=tmp_path,
        max_steps=4,
        val_check_interval=2,
        limit_val_batches=2,
        callbacks=[PhaseTimer()],
    )
    trainer.fit(model())

    columns = read_run(trainer.log_dir)[0].sessions[-1].columns
    assert ("part/logging/self.log" in columns) is is_logging
    assert columns["phase/validation"].sum() > 0
