from dataclasses import replace

import pytest
import torch
from fake_card import MIB, FakeCard
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset

from lightning_gpuprof.callbacks import batch_size_advisor
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.schema import Advice, Memory, Note
from lightning_gpuprof.runtime.context import RunContext


@pytest.fixture
def fit(session_of):
    def fitted(*callbacks, batch_size=8, model=None, **options):
        loader = torch.utils.data.DataLoader(RandomDataset(32, 128), batch_size=batch_size)
        options = {"limit_train_batches": 12, **options}
        return session_of(model or BoringModel(), *callbacks, data=loader, **options)

    return fitted


def advisor_of(card, **options):
    return BatchSizeAdvisor(**{"console": False, "probe": lambda device: card, **options})


class Growing(FakeCard):
    """Each reading finds a higher peak, and `leak` MiB more between steps."""

    leak = 0

    def read(self):
        self.samples += max(1, self.leak // 50)
        reading = super().read()
        return replace(
            reading, allocated_bytes=reading.allocated_bytes + self.reads * self.leak * MIB
        )


def test_on_a_cpu_nothing_is_measured_or_said_and_that_is_noted(fit, shown):
    session = fit(BatchSizeAdvisor(window=4))
    assert shown("[PROFILE]") == []
    assert session.all(Memory) == []
    assert session.all(Advice) == []
    assert [note.name for note in session.all(Note)] == ["vram-not-measured"]
    readings = session.all(ProcessMemory)
    assert [reading.step for reading in readings] == [3, 7, 11]
    assert all(reading.rss_bytes > 0 for reading in readings)


def test_each_window_gives_a_reading_and_the_first_one_a_suggestion(fit, shown):
    session = fit(advisor_of(FakeCard(8), window=4, console=True), accumulate_grad_batches=4)
    readings = session.all(Memory)
    assert [(r.step, r.samples) for r in readings] == [(3, 8), (7, None), (11, None)]
    assert readings[0].peak_allocated_bytes == 1_400 * MIB
    parameters = (32 * 2 + 2) * 4
    assert readings[0].kind_bytes == {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer_state": 0,
        "activations": 400 * MIB,
        "other": 1_000 * MIB - 2 * parameters,
    }
    [advice] = session.all(Advice)
    assert (advice.batch_size, advice.suggested_batch_size) == (8, 32)
    assert (advice.low, advice.high) == (32, 32)
    assert advice.details.accumulate_grad_batches == 1
    assert "4 times the largest batch" in advice.reason
    lines = shown("[PROFILE]")
    assert "allocated: 1000 MiB | reserved: 1.37 GiB | peak since the process began:" in lines[0]
    assert lines[1] == (
        "[PROFILE] batch size: 8 now, 32 suggested (limited to 4 times the largest batch that was "
        "run)"
    )
    assert len(lines) == 2  # the other windows had the same peak


@pytest.mark.parametrize(("card", "times"), [(FakeCard, 1), (Growing, 3)])
def test_memory_is_shown_where_its_peak_is_new(fit, shown, card, times):
    fit(advisor_of(card(8), window=4, console=True))
    assert len(shown("VRAM: allocated")) == times


def test_validation_closes_the_window_and_its_peak_is_not_trainings(fit):
    class Validated(FakeCard):
        def read(self):
            if self.reads == 1 + 4 + 1:  # at validation's end
                self.peak = 3_000 * MIB
            return super().read()

    card = Validated(8)
    session = fit(advisor_of(card), val_check_interval=6, limit_val_batches=1)
    assert [(r.step, r.samples) for r in session.all(Memory)] == [(5, 8), (11, None)]
    # Before training; four forward passes of a window and its end; after each validation.
    assert card.reads == 1 + 2 * (4 + 1) + 2
    first, second = session.all(Advice)
    assert "validation sets the peak (2.93 GiB)" in second.reason
    assert second.suggested_batch_size < first.suggested_batch_size


def test_a_suggestion_is_withdrawn_where_memory_leaks(fit, shown):
    card = Growing(8)
    card.leak = 100
    advices = fit(advisor_of(card, window=1, console=True), limit_train_batches=16).all(Advice)
    assert advices[0].suggested_batch_size > 8  # a leak does not show in one window
    assert advices[-1].suggested_batch_size is None
    assert advices[-1].reason.startswith("memory between steps grows by 100 MiB per step")
    told = shown("batch size")
    assert len(told) == 2
    assert "no suggestion: memory between steps grows" in told[1]


def test_the_user_can_give_the_batch_size(fit):
    session = fit(advisor_of(FakeCard(8), window=4, batch_size=lambda batch: 3))
    assert session.all(Memory)[0].samples == 3


class Clocked(Callback):
    """The session's time is a fake clock's, and each batch takes `batch_ns`."""

    def __init__(self, clock, batch_ns):
        self.clock, self.batch_ns = clock, batch_ns

    def setup(self, trainer, pl_module, stage):
        RunContext.of(trainer, now=self.clock)

    def on_train_batch_start(self, *_):
        self.clock.now_ns += self.batch_ns


@pytest.fixture
def dense(monkeypatch):
    """Batches are counted in two windows only, and readings are 1000 ns apart from then on."""
    monkeypatch.setattr(batch_size_advisor, "DENSE", 2)
    monkeypatch.setattr(batch_size_advisor, "SPARSE_NS", 1_000)


def test_where_steps_are_short_memory_is_read_less_often_and_batches_are_not_counted(
    fit, clock, dense
):
    counted = []

    def samples(batch):
        counted.append(batch)
        return 8

    advisor = advisor_of(Growing(8), window=2, batch_size=samples)
    session = fit(Clocked(clock, 200), advisor, limit_train_batches=16)
    read = [(1, 8), (3, 8), (9, None), (15, None)]
    assert [(r.step, r.samples) for r in session.all(Memory)] == read
    assert len(counted) == 4
    first, *_, last = session.all(Advice)
    assert last.suggested_batch_size <= first.suggested_batch_size
