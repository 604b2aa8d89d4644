import logging

import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from lightning.pytorch.loggers import CSVLogger

from lightning_gpuprof.callbacks.batch_size_advisor import NOT_MEASURED, BatchSizeAdvisor
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.memory import MemoryReading
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.records.schema import Advice, Memory, Note

MIB = 2**20
TOTAL = 10_000 * MIB


class FakeCard:
    """A card on which each sample takes 50 MiB and the model 1000."""

    def __init__(self, samples):
        self.samples = samples
        self.reads = 0

    def read(self):
        self.reads += 1
        peak = (1_000 + 50 * self.samples) * MIB
        return MemoryReading(
            allocated_bytes=1_000 * MIB,
            reserved_bytes=peak,
            active_bytes=1_000 * MIB,
            peak_allocated_bytes=peak,
            peak_reserved_bytes=peak,
            free_bytes=TOTAL - peak - 500 * MIB,
            total_bytes=TOTAL,
            alloc_retries=0,
            ooms=0,
        )


def fit(tmp_path, callback, *, batch_size=8, **options):
    options = {
        "max_epochs": 1,
        "limit_train_batches": 12,
        "limit_val_batches": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": False,
        "accelerator": "cpu",
        **options,
    }
    trainer = Trainer(callbacks=[callback], logger=CSVLogger(tmp_path), **options)
    loader = torch.utils.data.DataLoader(RandomDataset(32, 128), batch_size=batch_size)
    trainer.fit(BoringModel(), train_dataloaders=loader)
    return read_run(trainer.logger.log_dir)[0].sessions[0]


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "lightning_gpuprof")
    return lambda: [record.message for record in caplog.records if "[PROFILE]" in record.message]


def test_on_a_cpu_nothing_is_measured_and_that_is_said(tmp_path, said):
    session = fit(tmp_path, BatchSizeAdvisor(window=4))
    assert said() == [NOT_MEASURED]
    assert session.all(Memory) == []
    assert session.all(Advice) == []
    notes = session.all(Note)
    assert [note.name for note in notes] == ["vram-not-measured", *["rss_bytes"] * 3]
    assert [note.step for note in notes[1:]] == [3, 7, 11]
    assert all(note.value > 0 for note in notes[1:])


def test_each_window_gives_a_reading_and_the_first_one_a_suggestion(tmp_path, said):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=4, warmup=2, probe=lambda device: card)
    session = fit(tmp_path, advisor, accumulate_grad_batches=4)

    readings = session.all(Memory)
    assert [(r.step, r.samples) for r in readings] == [(5, 8), (9, 8), (11, 8)]
    assert readings[0].peak_allocated_bytes == 1_400 * MIB
    [advice] = session.all(Advice)
    assert (advice.batch_size, advice.suggested_batch_size) == (8, 32)
    assert (advice.low, advice.high) == (32, 32)
    assert advice.details["accumulate_grad_batches"] == 1
    assert "4 times the largest batch" in advice.reason
    lines = said()
    assert lines[0].startswith("[PROFILE] VRAM: allocated: 1000 MiB | reserved: 1.37 GiB | peak:")
    assert lines[1].startswith("[PROFILE] batch size: 8 now, 32 suggested")
    assert len(lines) == 4


def test_validation_closes_the_window_and_begins_new_peaks(tmp_path):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=50, warmup=0, probe=lambda device: card, console=False)
    session = fit(tmp_path, advisor, val_check_interval=6, limit_val_batches=1)
    assert [r.step for r in session.all(Memory)] == [5, 11]
    assert card.reads == 1 + 2 + 2  # before training, per window, after each validation


def test_the_user_can_tell_the_batch_size(tmp_path):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(
        window=4, warmup=0, probe=lambda device: card, batch_size=lambda batch: 3, console=False
    )
    assert fit(tmp_path, advisor).all(Memory)[0].samples == 3


@pytest.mark.parametrize("options", [{"window": 0}, {"warmup": -1}, {"band": (0.8, 0.6)}])
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        BatchSizeAdvisor(**options)
