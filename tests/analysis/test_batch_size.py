import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.analysis.batch_size import Card, Peak, accumulation_for, advise

MIB = 2**20
CARD = Card(total_bytes=10_000 * MIB, others_bytes=500 * MIB, resting_bytes=1_000 * MIB)


def peak(samples, *, constant=1_000, per_sample=50, reserved=1.0):
    allocated = (constant + per_sample * samples) * MIB
    return Peak(samples, allocated, int(allocated * reserved))


def test_one_size_is_extended_from_what_rests_between_steps():
    advice = advise([peak(32)], CARD)
    assert (advice.batch_size, advice.low, advice.high) == (32, 90, 128)
    assert advice.suggested == 104
    assert advice.constant_bytes == 1_000 * MIB
    assert advice.per_sample_bytes == 50 * MIB


def test_two_sizes_give_the_line_itself():
    peaks = [peak(16, constant=2_000), peak(32, constant=2_000)]
    advice = advise(peaks, CARD)
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
    advice = advise([peak(samples, **kind), peak(2 * samples, **kind)], CARD)
    if advice.suggested is None:
        return
    assert advice.low <= advice.suggested <= advice.high
    predicted = spread * (constant + per_sample * advice.high) * MIB + CARD.others_bytes
    assert advice.high == 1 or predicted <= 0.8 * CARD.total_bytes * 1.001


def test_a_size_in_the_band_stays():
    assert advise([peak(100)], CARD).suggested == 100


def test_a_size_above_the_band_is_lowered():
    assert advise([peak(170)], CARD).suggested < 128


def test_a_fragmented_pool_leaves_less_room():
    assert advise([peak(32, reserved=1.3)], CARD).high < advise([peak(32)], CARD).high


def test_a_suggestion_does_not_stretch_far_past_what_was_run():
    advice = advise([peak(4, per_sample=1)], CARD)
    assert advice.high == 16
    assert "4 times the largest" in advice.notes[0]


def test_samples_of_varying_length_widen_the_suggestion():
    advice = advise([peak(32), peak(32, per_sample=80)], CARD)
    assert advice.low <= 32
    assert "vary in length" in advice.notes[-1]


@pytest.mark.parametrize(
    ("peaks", "card", "options", "reason"),
    [
        ([peak(32)], CARD, {"alloc_retries": 2}, "ran out of memory"),
        ([peak(16), peak(32, per_sample=10)], CARD, {}, "does not grow"),
        (
            [peak(8, constant=9_000)],
            Card(10_000 * MIB, 500 * MIB, 9_000 * MIB),
            {},
            "the model alone fills the band",
        ),
    ],
)
def test_a_suggestion_is_withheld_with_its_reason(peaks, card, options, reason):
    advice = advise(peaks, card, **options)
    assert advice.suggested is None
    assert advice.low is None
    assert reason in advice.reason


def test_nothing_measured_gives_no_advice():
    assert advise([], CARD) is None


def test_the_effective_batch_is_kept_by_accumulating_less():
    assert accumulation_for(8, 4, 32) == 1
    assert accumulation_for(8, 16, 32) == 4
