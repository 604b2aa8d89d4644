from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.memory.batch_size import (
    IDLE_BYTES,
    BatchSizeAdvice,
    DeviceRoom,
    Peak,
    suggest_batch_size,
)
from lightning_gpuprof.memory.batch_size_lines import advice_record

MIB = 2**20
ROOM = DeviceRoom(total_bytes=10_000 * MIB, others_bytes=500 * MIB, resting_bytes=1_000 * MIB)


def peak(samples, *, constant=1_000, per_sample=50, reserved=1.0):
    allocated = (constant + per_sample * samples) * MIB
    return Peak(samples, allocated, int(allocated * reserved))


def test_one_size_is_extended_from_what_rests_between_steps():
    advice = suggest_batch_size([peak(32)], ROOM)
    assert (advice.batch_size, advice.low, advice.high) == (32, 90, 128)
    assert advice.suggested == 104
    assert advice.constant_bytes == 1_000 * MIB
    assert advice.per_sample_bytes == 50 * MIB


def test_two_sizes_give_the_line_itself():
    peaks = [peak(16, constant=2_000), peak(32, constant=2_000)]
    advice = suggest_batch_size(peaks, ROOM)
    assert advice.constant_bytes == 2_000 * MIB
    assert (advice.low, advice.high) == (70, 110)


@given(
    constant=st.integers(0, 3_000),
    per_sample=st.integers(1, 200),
    samples=st.integers(1, 200),
    spread=st.floats(1.0, 1.5),
)
def test_the_band_is_filled_and_never_passed(constant, per_sample, samples, spread):
    kind = {"constant": constant, "per_sample": per_sample, "reserved": spread}
    advice = suggest_batch_size([peak(samples, **kind), peak(2 * samples, **kind)], ROOM)
    if advice.suggested is None:
        return
    assert advice.low <= advice.suggested <= advice.high
    if (spread - 1) * (constant + per_sample * 2 * samples) * MIB <= IDLE_BYTES:
        spread = 1.0  # so much lies idle in the segments of any pool
    predicted = spread * (constant + per_sample * advice.high) * MIB + ROOM.others_bytes
    assert advice.high == 1 or predicted <= 0.8 * ROOM.total_bytes * 1.001


def test_the_largest_that_fits_leaves_room_for_what_the_pool_cannot_give_back():
    [seen] = [peak(100)]
    assert suggest_batch_size([seen], ROOM).largest == 170
    split = replace(seen, split_bytes=seen.peak_allocated_bytes // 10)
    # 9,500 MiB hold 8,636 MiB with a tenth of them in free rests of segments.
    assert suggest_batch_size([split], ROOM).largest == 152


def test_no_largest_is_said_far_from_what_was_run():
    assert suggest_batch_size([peak(10)], ROOM).largest is None


def test_no_largest_is_said_of_a_device_of_few_segments():
    def largest(total_mib):
        room = DeviceRoom(total_bytes=total_mib * MIB, others_bytes=0, resting_bytes=50 * MIB)
        return suggest_batch_size([Peak(100, 250 * MIB, 250 * MIB)], room).largest

    assert (largest(399), largest(400)) == (None, 175)


def test_a_fragmented_pool_leaves_less_room():
    assert (
        suggest_batch_size([peak(32, reserved=1.3)], ROOM).high
        < suggest_batch_size([peak(32)], ROOM).high
    )


def test_the_idle_rest_of_a_small_models_segments_is_no_fragmentation():
    small = Peak(32, peak_allocated_bytes=MIB // 2, peak_reserved_bytes=22 * MIB)
    advice = suggest_batch_size([small], replace(ROOM, resting_bytes=MIB // 4))
    assert advice.suggested is not None
    assert advice.high == 128  # four times 32


def test_a_suggestion_does_not_stretch_far_past_what_was_run():
    advice = suggest_batch_size([peak(4, per_sample=1)], ROOM)
    assert advice.high == 16
    assert "4 times the largest" in advice.notes[0]


def test_known_kinds_make_the_suggestion_careful_and_the_interval_wide():
    known = replace(ROOM, constant_bytes=600 * MIB)
    advice, plain = suggest_batch_size([peak(32)], known), suggest_batch_size([peak(32)], ROOM)
    # 600 MiB are constant for sure: the other 2000 of the peak may all grow with the batch.
    assert advice.per_sample_bytes == 2_000 * MIB / 32
    assert advice.low == int(4_900 / 62.5)
    assert advice.low <= advice.suggested <= int(6_900 / 62.5)
    assert advice.high == plain.high == 128


def test_a_size_between_two_others_that_lies_above_their_line_raises_it():
    bent = [peak(16), peak(32, constant=1_400), peak(64)]
    advice = suggest_batch_size(bent, ROOM)
    assert advice.constant_bytes == 1_400 * MIB
    assert (advice.low, advice.high) == (82, 130)


def test_validation_that_holds_more_sets_the_size():
    seen = replace(ROOM, validation_peak_bytes=(1_000 + 32 * 100) * MIB)
    advice = suggest_batch_size([peak(32)], seen)
    assert advice.per_sample_bytes == 100 * MIB
    assert advice.suggested <= 65
    assert "validation sets the peak (4.10 GiB)" in advice.notes[0]
    less = replace(ROOM, validation_peak_bytes=2_000 * MIB)
    assert suggest_batch_size([peak(32)], less) == suggest_batch_size([peak(32)], ROOM)


def test_what_others_hold_is_said_and_the_most_of_it_counts():
    advice = suggest_batch_size([peak(32)], replace(ROOM, others_bytes=3_000 * MIB))
    assert (advice.low, advice.high) == (40, 80)
    assert "up to 2.93 GiB of the device are in use outside" in advice.notes[0]


@pytest.mark.parametrize(
    ("peaks", "room", "reason"),
    [
        ([peak(32)], replace(ROOM, alloc_retries=2), "ran out of memory"),
        ([peak(32, reserved=2.5)], ROOM, "reserves 2.5 times what is allocated"),
        ([peak(16), peak(32, per_sample=10)], ROOM, "does not grow"),
        (
            [peak(8, constant=9_000)],
            DeviceRoom(10_000 * MIB, 500 * MIB, 9_000 * MIB),
            "the model alone fills the target band",
        ),
    ],
)
def test_a_suggestion_is_withheld_with_its_reason(peaks, room, reason):
    advice = suggest_batch_size(peaks, room)
    assert advice.suggested is None
    assert advice.low is None
    assert reason in advice.reason


def details(size, suggested, **trainer):
    advice = BatchSizeAdvice(size, suggested=suggested)
    return advice_record(advice, step=0, **trainer).details


def test_the_effective_batch_is_kept_by_accumulating_less():
    assert details(8, 32, accumulate=4).accumulate_grad_batches == 1
    unchanged = details(8, 32, accumulate=16, world_size=2)
    assert (unchanged.accumulate_grad_batches, unchanged.effective_batch_size) == (4, 256)
    assert (
        unchanged.learning_rate
        == "the effective batch size stays 256: leave the learning rate as it is"
    )


def test_a_larger_effective_batch_asks_for_another_learning_rate():
    grown = details(8, 32)
    assert (grown.accumulate_grad_batches, grown.effective_batch_size) == (1, 32)
    assert "from 8 to 32: multiply the learning rate by 4 with SGD" in grown.learning_rate
    assert "by 2 with Adam" in grown.learning_rate
