"""Where steps are short the advisor rests: what it sees of memory then, and what it advises."""

from types import SimpleNamespace

import pytest
import torch
from fake_card import MIB, FakeCard
from lightning.pytorch import Callback
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset

from lightning_gpuprof.callbacks import batch_size_advisor
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.callbacks.memory.memory_window import MemoryWindow
from lightning_gpuprof.callbacks.output.run_output import RunOutput
from lightning_gpuprof.records.schema import Advice, Memory


@pytest.fixture
def fit(session_of):
    def fitted(*callbacks, batch_size=8, **options):
        loader = torch.utils.data.DataLoader(RandomDataset(32, 128), batch_size=batch_size)
        options = {"limit_train_batches": 12, **options}
        return session_of(BoringModel(), *callbacks, data=loader, **options)

    return fitted


class GrowingCard(FakeCard):
    """Each reading finds a sample more in the peak."""

    def read(self):
        self.samples += 1
        return super().read()


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(batch_size_advisor, "SHORT_NS", 1 << 62)
    monkeypatch.setattr(batch_size_advisor, "DENSE", 2)
    monkeypatch.setattr(batch_size_advisor, "REST", 3)


def test_where_steps_are_short_batches_are_looked_at_in_some_windows_and_no_peak_is_lost(
    fit, short, monkeypatch
):
    looked = []
    add = MemoryWindow.add

    def spying(self, batch, outputs, samples):
        looked.append(samples)
        add(self, batch, outputs, samples)

    monkeypatch.setattr(MemoryWindow, "add", spying)
    card = GrowingCard(8)
    advisor = BatchSizeAdvisor(window=2, warmup=2, probe=lambda device: card, console=False)
    session = fit(advisor, batch_size=4, limit_train_batches=24)

    readings = session.all(Memory)
    assert [(r.step, r.samples) for r in readings] == [
        (3, 4), (5, 4), (11, None), (13, 4), (19, None), (21, 4), (23, None),
    ]  # fmt: skip
    assert len(looked) == 8
    peaks = [r.peak_allocated_bytes // MIB for r in readings]
    assert peaks == [1_550 + 50 * n for n in range(7)]
    assert max(peak.peak_allocated_bytes for peak in advisor._peaks) == peaks[-1] * MIB


def test_a_rest_ends_where_validation_begins_and_goes_on_behind_it(fit, short):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda device: card, console=False)
    session = fit(advisor, batch_size=4, val_check_interval=6, limit_val_batches=1)
    steps = [r.step for r in session.all(Memory)]
    assert steps == [1, 3, 5, 9, 11]


class Peaks(FakeCard):
    """Its peaks, in samples, come by reading; the first is the one before training."""

    def __init__(self, *samples, **options):
        super().__init__(8, **options)
        self.by_reading = iter(samples)

    def read(self):
        self.samples = next(self.by_reading, self.samples)
        return super().read()


def rested(fit, card, **options):
    """Two windows of two batches, a rest of six in which training ends."""
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda device: card, console=False)
    session = fit(advisor, limit_train_batches=10, **options)
    assert [r.samples for r in session.all(Memory)] == [8, 8, None]
    return session.all(Advice)


def test_a_higher_peak_in_a_rest_at_the_end_lowers_the_advice(fit, short):
    before, *_, last = rested(fit, Peaks(8, 80, 80, 120))
    assert last.suggested_batch_size < before.suggested_batch_size
    assert last.high < before.high


def test_a_retry_in_a_rest_at_the_end_withdraws_the_advice(fit, short):
    *_, last = rested(fit, FakeCard(8, retries=(0, 0, 0, 1)))
    assert last.suggested_batch_size is None
    assert "ran out of memory" in last.reason


def test_a_lower_peak_in_a_rest_changes_no_advice(fit, short):
    card = Peaks(8, 80, 80, 20, 80)
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda device: card, console=False)
    session = fit(advisor)  # its last window, behind the rest, is watched
    assert [r.samples for r in session.all(Memory)] == [8, 8, None, 8]
    assert len(session.all(Advice)) == 1


def test_what_is_known_to_be_constant_is_that_of_the_last_window_watched(fit, short):
    # What is left of 1000 MiB between steps, the batch's and outputs' bytes taken off.
    before, last = rested(fit, Peaks(8, 80, 80, 81))
    assert last.details["constant_bytes"] == before.details["constant_bytes"] < 1_000 * MIB


def test_where_each_validation_ends_a_window_there_are_rests_too(fit, short):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=4, warmup=0, probe=lambda device: card, console=False)
    options = {"limit_train_batches": 24, "val_check_interval": 2, "limit_val_batches": 1}
    session = fit(advisor, batch_size=4, **options)
    readings = session.all(Memory)
    assert [r.step for r in readings] == list(range(1, 24, 2))
    # Two windows are watched, three times four batches are not, and so on.
    assert [bool(r.samples) for r in readings] == [True] * 2 + [False] * 6 + [True] + [False] * 3


class Clocked(Callback):
    """The session's time is a fake clock's."""

    def __init__(self, clock):
        self.clock = clock

    def setup(self, trainer, pl_module, stage):
        RunOutput.of(trainer, now=self.clock)


def test_the_time_of_validation_makes_no_window_long(fit, clock, monkeypatch):
    monkeypatch.setattr(batch_size_advisor, "SHORT_NS", 1_000)
    monkeypatch.setattr(batch_size_advisor, "DENSE", 2)

    class SlowlyValidated(Clocked):
        def on_validation_batch_end(self, *_):
            clock.now_ns += 10**12

    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda device: card, console=False)
    session = fit(SlowlyValidated(clock), advisor, val_check_interval=2, limit_val_batches=1)
    assert [bool(r.samples) for r in session.all(Memory)] == [True] * 2 + [False] * 4


def test_a_part_of_a_window_is_short_by_its_pace(fit, clock, monkeypatch):
    monkeypatch.setattr(batch_size_advisor, "SHORT_NS", 1_000)
    monkeypatch.setattr(batch_size_advisor, "DENSE", 2)

    class Trained(Clocked):
        def on_train_batch_start(self, *_):
            clock.now_ns += 200  # 400 for a validation's batches, 2000 for a window's

    advisor = BatchSizeAdvisor(window=10, warmup=0, probe=lambda d: FakeCard(8), console=False)
    session = fit(Trained(clock), advisor, val_check_interval=2, limit_val_batches=1)
    assert [r.samples for r in session.all(Memory)] == [8] * 6


def test_where_all_that_was_watched_was_compiled_a_rest_knows_the_batch_size(fit, short):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(
        window=2,
        warmup=0,
        probe=lambda device: card,
        compiles=lambda: SimpleNamespace(compiled_since=lambda: True),
        console=False,
    )
    [advice] = fit(advisor, limit_train_batches=10).all(Advice)
    assert advice.batch_size == 8


def test_batches_that_are_skipped_move_no_steps_in_a_rest(session_of, short):
    class Skipping(BoringModel):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 4 else None

    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda device: card, console=False)
    session = session_of(Skipping(), advisor, limit_train_batches=6, max_epochs=4)
    assert [r.step for r in session.all(Memory)] == [1, 3, 9, 11, 15]
