import logging
from dataclasses import replace

import pytest
import torch
from fake_card import MIB, FakeCard
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset

from lightning_gpuprof.analysis.memory.rank_advice import rank_advice
from lightning_gpuprof.callbacks import batch_size_advisor
from lightning_gpuprof.callbacks.batch_size_advisor import BatchSizeAdvisor
from lightning_gpuprof.callbacks.memory import memory_notes
from lightning_gpuprof.callbacks.memory.advice_text import not_measured
from lightning_gpuprof.callbacks.memory.memory_window import MemoryWindow
from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.probes.memory.memory import PoolPeaks
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Advice, Memory, Note


class Compiles:
    """Says of each window whether something was compiled in it."""

    def __init__(self, *said):
        self.said = list(said)

    def compiled_since(self):
        return self.said.pop(0) if self.said else False


@pytest.fixture
def fit(session_of):
    def fitted(callback, *, batch_size=8, **options):
        loader = torch.utils.data.DataLoader(RandomDataset(32, 128), batch_size=batch_size)
        options = {"limit_train_batches": 12, **options}
        return session_of(BoringModel(), callback, data=loader, **options)

    return fitted


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "lightning_gpuprof")
    return lambda: [record.message for record in caplog.records if "[PROFILE]" in record.message]


def test_on_a_cpu_nothing_is_measured_and_that_is_said(fit, said):
    session = fit(BatchSizeAdvisor(window=4))
    assert said() == [f"[PROFILE] VRAM: {not_measured('cpu')}"]
    assert session.all(Memory) == []
    assert session.all(Advice) == []
    notes = session.all(Note)
    assert [note.name for note in notes] == ["vram-not-measured", *["rss_bytes"] * 3]
    assert [note.step for note in notes[1:]] == [3, 7, 11]
    assert all(note.value > 0 for note in notes[1:])


def test_where_steps_are_short_the_process_memory_is_noted_less_often(fit, monkeypatch):
    monkeypatch.setattr(memory_notes, "SHORT_NS", 1 << 62)
    monkeypatch.setattr(memory_notes, "DENSE", 2)
    monkeypatch.setattr(memory_notes, "SPARSER", 4)
    session = fit(BatchSizeAdvisor(window=2))
    assert [note.step for note in session.all(Note) if note.name == "rss_bytes"] == [1, 3, 11]


def test_each_window_gives_a_reading_and_the_first_one_a_suggestion(fit, said):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=4, warmup=2, probe=lambda device: card)
    session = fit(advisor, accumulate_grad_batches=4)

    readings = session.all(Memory)
    assert [(r.step, r.samples) for r in readings] == [(5, 8), (9, 8), (11, 8)]
    assert readings[0].peak_allocated_bytes == 1_400 * MIB
    [advice] = session.all(Advice)
    assert (advice.batch_size, advice.suggested_batch_size) == (8, 32)
    assert (advice.low, advice.high) == (32, 32)
    assert advice.details["accumulate_grad_batches"] == 1
    assert advice.details["effective_batch_size"] == 32
    assert (
        advice.details["learning_rate"] == "the effective batch stays 32: leave the learning rate"
    )
    assert "4 times the largest batch" in advice.reason
    lines = said()
    assert lines[0].startswith("[PROFILE] VRAM: allocated: 1000 MiB | reserved: 1.37 GiB | peak:")
    assert lines[1] == (
        "[PROFILE] batch size: 8 now, 32 suggested (held at 4 times the largest batch that was run)"
    )
    assert len(lines) == 2  # the windows took no seconds, and their peaks were the same


@pytest.mark.parametrize(
    ("pause_ns", "growth", "shown"), [(0, 0, 3), (10**12, 0, 1), (10**12, 1, 3)]
)
def test_memory_is_shown_now_and_then_and_where_its_peak_is_new(
    fit, said, monkeypatch, pause_ns, growth, shown
):
    class Growing(FakeCard):
        def read(self):
            self.samples += growth
            return super().read()

    monkeypatch.setattr(batch_size_advisor, "SHOWN_EVERY_NS", pause_ns)
    fit(BatchSizeAdvisor(window=4, warmup=0, probe=lambda device: Growing(8)))
    assert sum("VRAM: allocated" in line for line in said()) == shown


def test_windows_that_take_a_second_are_all_watched(fit, monkeypatch):
    monkeypatch.setattr(batch_size_advisor, "SHORT_NS", 0)
    monkeypatch.setattr(batch_size_advisor, "DENSE", 2)
    advisor = BatchSizeAdvisor(window=2, warmup=0, probe=lambda d: FakeCard(8), console=False)
    assert [r.samples for r in fit(advisor).all(Memory)] == [8] * 6


def test_only_retries_of_this_training_withhold_a_suggestion(fit):
    def suggested(*retries):
        card = FakeCard(8, retries=retries)
        advisor = BatchSizeAdvisor(window=12, warmup=0, probe=lambda device: card, console=False)
        session = fit(advisor)
        retried = session.all(Memory)[-1].alloc_retries
        return retried, session.all(Advice)[-1].suggested_batch_size is not None

    assert suggested(3) == (0, True)  # all three came before, as in a search for the batch size
    assert suggested(3, 4) == (1, False)


def test_validation_closes_the_window_and_begins_new_peaks(fit):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(window=50, warmup=0, probe=lambda device: card, console=False)
    session = fit(advisor, val_check_interval=6, limit_val_batches=1)
    assert [r.step for r in session.all(Memory)] == [5, 11]
    assert card.reads == 1 + 2 + 2  # before training, per window, after each validation


def test_the_peak_of_each_phase_is_read_in_one_step_of_a_window(fit):
    # Before backward, after it, before the optimizer's step, at the end; and the next window's.
    card = FakeCard(8, phases=[1_350, 1_500, 1_100, 1_200, 1, 2, 3, 4])
    advisor = BatchSizeAdvisor(window=6, warmup=0, probe=lambda device: card, console=False)
    first, second = fit(advisor).all(Memory)
    assert first.phase_peak_bytes == {
        "forward": 1_350 * MIB,
        "backward": 1_500 * MIB,
        "optimizer_step": 1_200 * MIB,
    }
    # Reading begins new peaks: the window's own is the highest of all.
    assert first.peak_allocated_bytes == 1_500 * MIB
    assert second.peak_allocated_bytes == 1_400 * MIB
    assert advisor.on_after_backward is None


def test_memory_at_the_peak_is_split_by_kind(fit):
    advisor = BatchSizeAdvisor(window=6, warmup=0, probe=lambda device: FakeCard(8), console=False)
    kinds = fit(advisor).all(Memory)[0].kind_bytes
    parameters = (32 * 2 + 2) * 4
    assert kinds == {
        "parameters": parameters,
        "gradients": parameters,
        "optimizer_state": 0,
        "activations": 400 * MIB,
        "other": 1_000 * MIB - 2 * parameters,
    }
    assert sum(kinds.values()) == 1_400 * MIB


def test_what_a_compilation_took_is_left_out(fit):
    advisor = BatchSizeAdvisor(
        window=4,
        warmup=0,
        probe=lambda device: FakeCard(8),
        compiles=lambda: Compiles(True, False),
        console=False,
    )
    session = fit(advisor)
    assert len(session.all(Memory)) == 3
    [advice] = session.all(Advice)
    assert "1 windows with compilation in them" in advice.reason


def test_a_run_that_always_compiles_gets_no_suggestion(fit):
    advisor = BatchSizeAdvisor(
        window=4,
        warmup=0,
        probe=lambda device: FakeCard(8),
        compiles=AlwaysCompiles,
        console=False,
    )
    [advice] = fit(advisor).all(Advice)
    assert advice.suggested_batch_size is None
    assert advice.reason.startswith("something was compiled in every window")


class AlwaysCompiles:
    def compiled_since(self):
        return True


def test_cuda_graphs_withhold_the_suggestion(fit, said):
    advisor = BatchSizeAdvisor(window=4, warmup=0, probe=lambda device: FakeCard(8, graphs=True))
    [advice] = fit(advisor).all(Advice)
    assert advice.suggested_batch_size is None
    assert "CUDA graphs" in advice.reason
    assert any("8 now, no suggestion: CUDA graphs" in line for line in said())


def test_validation_that_holds_more_is_told(fit):
    class Card(FakeCard):
        def read(self):
            reading = super().read()
            # The third reading is the one after the first validation.
            peak = 3_000 * MIB if self.reads == 3 else reading.peak_allocated_bytes
            return replace(reading, peak_allocated_bytes=peak)

    card = Card(8)
    advisor = BatchSizeAdvisor(window=50, warmup=0, probe=lambda device: card, console=False)
    session = fit(advisor, val_check_interval=6, limit_val_batches=1)
    first, second = session.all(Advice)
    assert "validation sets the peak (2.93 GiB)" in second.reason
    assert second.suggested_batch_size < first.suggested_batch_size


def test_a_suggestion_is_withdrawn_where_memory_leaks(fit, said, monkeypatch):
    class Leaking(FakeCard):
        leaks = 0

        def read(self):
            self.leaks += 100 * MIB
            reading = super().read()
            return replace(
                reading,
                allocated_bytes=reading.allocated_bytes + self.leaks,
                peak_allocated_bytes=reading.peak_allocated_bytes + self.leaks,
                peak_reserved_bytes=reading.peak_reserved_bytes + self.leaks,
            )

    monkeypatch.setattr(batch_size_advisor, "SHORT_NS", 0)
    advisor = BatchSizeAdvisor(window=1, warmup=0, probe=lambda device: Leaking(8))
    advices = fit(advisor, limit_train_batches=16).all(Advice)
    assert advices[0].suggested_batch_size > 8  # a leak does not show in one window
    last = advices[-1]
    assert last.suggested_batch_size is None
    assert last.reason.startswith("memory between steps grows by 100 MiB per step")
    told = [line for line in said() if "batch size" in line]
    assert len(told) == 2
    assert "no suggestion: memory between steps grows" in told[1]


def test_of_two_ranks_the_one_with_less_headroom_decides(fit):
    def advice(rank, others):
        card = FakeCard(32, others=others)
        advisor = BatchSizeAdvisor(window=6, warmup=0, probe=lambda device: card, console=False)
        return fit(advisor, batch_size=32, limit_train_batches=4)

    ranks = {0: advice(0, 500), 1: advice(1, 3_000)}
    alone = [session.all(Advice)[-1].suggested_batch_size for session in ranks.values()]
    assert alone[1] < alone[0]
    chosen = rank_advice(ranks)
    assert chosen.suggested_batch_size == alone[1]
    assert chosen.details["rank"] == 1


def test_what_the_pool_cannot_give_back_is_read_where_forward_ends():
    class Split(FakeCard):
        splits = iter([7, 9])

        def peaks(self):
            return PoolPeaks(100, 200, next(self.splits))

    card = Split(8)
    window = MemoryWindow(card)
    window.enter(Phase.BACKWARD)
    window.enter(Phase.OPTIMIZER_STEP)
    assert window.peak(card.read()).split_bytes == 7


def test_the_user_can_tell_the_batch_size(fit):
    card = FakeCard(8)
    advisor = BatchSizeAdvisor(
        window=4, warmup=0, probe=lambda device: card, batch_size=lambda batch: 3, console=False
    )
    assert fit(advisor).all(Memory)[0].samples == 3


@pytest.mark.parametrize(
    "options", [{"window": 0}, {"warmup": -1}, {"band": (0.8, 0.6)}, {"band": 0.8}]
)
def test_settings_that_cannot_work_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        BatchSizeAdvisor(**options)
