"""Which windows own torch's peak, which only rises since nothing here resets it."""

from dataclasses import replace

import pytest
import torch
from fake_card import MIB, FakeCard

from lightning_gpuprof.memory.peaks import TrainingPeaks, WindowBatches

BAND = (0.6, 0.8)


class Training:
    """Trains windows of ten batches on a card."""

    def __init__(self, card, **changes):
        self.card = card
        self.peaks = TrainingPeaks(card.read())
        self.batch = 0
        self.changes = changes

    def window(self, samples, *, counted=True):
        self.batch += 10
        self.card.samples = samples
        batches = WindowBatches()
        batches.add(torch.zeros(samples), None, samples)
        reading = replace(self.card.read(), **self.changes)
        self.reading = self.peaks.of_this_training(reading)
        return self.peaks.add(
            self.reading,
            batches if counted else WindowBatches(),
            batch=self.batch,
            kinds={"parameters": 600 * MIB},
        )

    def advice(self):
        return self.peaks.advise(self.reading, BAND)


def test_a_window_that_raises_the_peak_owns_it():
    training = Training(FakeCard(8))
    record = training.window(16)
    assert (record.samples, record.peak_allocated_bytes) == (16, 1_800 * MIB)
    assert record.kind_bytes == {
        "parameters": 600 * MIB,
        "activations": 800 * MIB,
        "other": 400 * MIB,
    }
    assert training.window(16).samples is None  # at most as high
    assert training.advice().per_sample_bytes == pytest.approx(50 * MIB, rel=0.01)


def test_a_smaller_batch_after_a_larger_one_has_no_peak_and_changes_no_advice():
    training = Training(FakeCard(8))
    training.window(32)
    before = training.advice()
    assert training.window(8).samples is None
    after = training.advice()
    assert (after.batch_size, after.suggested, after.low) == (32, before.suggested, before.low)


def test_a_peak_from_before_training_is_nobodys_and_that_is_said():
    training = Training(FakeCard(8, before=5_000))
    record = training.window(16)
    assert (record.samples, record.kind_bytes, record.peak_from_before) == (None, {}, True)
    advice = training.advice()
    assert advice.suggested is None
    assert advice.reason.startswith("the highest peak of the process, 4.88 GiB, was reached before")
    assert "torch.cuda.reset_peak_memory_stats()" in advice.reason


def test_validation_that_raises_the_peak_lowers_the_advice_until_training_passes_it():
    training = Training(FakeCard(8))
    training.window(32)
    before = training.advice()
    training.card.samples = 40
    training.peaks.add_validation(training.card.read())
    training.window(32)
    after = training.advice()
    assert after.suggested < before.suggested
    assert "validation sets the peak (2.93 GiB)" in after.notes[0]
    training.window(48)
    assert not any("validation" in note for note in training.advice().notes)


def test_a_higher_peak_of_batches_that_nobody_counted_belongs_to_the_largest_known():
    training = Training(FakeCard(8))
    training.window(32)
    before = training.advice()
    assert training.window(36, counted=False).samples is None
    after = training.advice()
    assert (after.batch_size, after.constant_bytes) == (32, before.constant_bytes)
    assert after.suggested < before.suggested


def test_the_rests_of_segments_are_those_of_the_fullest_forward_pass():
    training = Training(FakeCard(120))
    training.window(120)
    full = training.advice().largest
    split = [replace(training.reading, split_bytes=size * MIB) for size in (700, 3_000)]
    training.peaks.add_forward(split[0])
    fewer = training.advice().largest
    assert fewer < full
    # Shorter samples leave more of the same segments free.
    training.peaks.add_forward(replace(split[1], allocated_bytes=900 * MIB))
    assert training.advice().largest == fewer


def test_only_retries_of_this_training_withhold_a_suggestion():
    before = Training(FakeCard(8, retries=(3,)))
    assert before.window(8).alloc_retries == 0
    assert before.advice().suggested is not None
    within = Training(FakeCard(8, retries=(3, 4)))
    assert within.window(8).alloc_retries == 1
    assert "ran out of memory" in within.advice().reason


def test_batches_of_unknown_size_give_no_advice():
    training = Training(FakeCard(8))
    training.window(8, counted=False)
    assert training.advice() is None
