import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.records.facts import KeptPredictions, PageFaults
from lightning_gpuprof.records.reader import read_run

LOGITS = 4 * 100 * 10


class Answers(BoringModel):
    def predict_step(self, batch, batch_idx):
        return torch.zeros(10, 100)[:, :1]


@pytest.fixture
def predict(tmp_path):
    def predicted(*callbacks, **options):
        recording = GpuProfCallback(trace=False, lines=False, report=False)
        trainer = Trainer(logger=CSVLogger(tmp_path), callbacks=[recording, *callbacks])
        trainer.predict(Answers(), **options)
        return read_run(f"{trainer.logger.log_dir}/predict")[0].sessions[0]

    return predicted


def test_what_the_trainer_returns_is_recorded_with_the_memory_it_holds(predict):
    assert predict().all(KeptPredictions) == [KeptPredictions(LOGITS, 40, returned=True)]


def test_outputs_that_are_not_returned_are_not_kept(predict):
    assert predict(return_predictions=False).all(KeptPredictions) == []


class AtEnd(BasePredictionWriter):
    def write_on_epoch_end(self, *_):
        pass

    def write_on_batch_end(self, *_):
        pass


@pytest.mark.parametrize(("interval", "writer"), [("epoch", ["AtEnd"]), ("batch", [])])
def test_a_writer_keeps_all_outputs_if_it_receives_them_in_the_end(predict, interval, writer):
    session = predict(AtEnd(write_interval=interval), return_predictions=False)
    assert [kept.writer for kept in session.all(KeptPredictions)] == writer


def test_the_kernels_time_for_new_pages_is_recorded(predict):
    faults = predict().last(PageFaults)
    assert faults.faults >= 0
    assert faults.system_ns >= 0
