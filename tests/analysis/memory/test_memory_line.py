import random
from dataclasses import replace

import pytest

from lightning_gpuprof.analysis.memory.batch_size import DeviceRoom, advise
from lightning_gpuprof.analysis.memory.memory_line import Peak, says_more

MIB = 2**20


def windows(seed, count=400):
    """Return windows of batches of three sizes, whose samples vary in length."""
    chance, reserved = random.Random(seed), 0
    for _ in range(count):
        samples, length = chance.choice([8, 16, 16, 16, 24]), chance.uniform(0.5, 1.5)
        allocated = int((500 + samples * length * 100) * MIB)
        reserved = max(reserved, int(allocated * chance.uniform(1, 1.3)))
        batch = int(samples * length * MIB)
        split = int(chance.uniform(0, 50) * MIB)
        yield Peak(samples, allocated, reserved, batch, batch // 2, split)


@pytest.mark.parametrize("seed", range(5))
def test_the_advice_of_few_peaks_is_that_of_all_of_them(seed):
    room = DeviceRoom(total_bytes=24_000 * MIB, others_bytes=500 * MIB, resting_bytes=600 * MIB)
    every, kept = [], []
    for peak in windows(seed):
        every.append(peak)
        if says_more(peak, kept):
            kept.append(peak)
        assert advise(kept, room) == advise(every, room)
    assert len(kept) < 60


@pytest.mark.parametrize(
    "more",
    [
        {"samples": 9},
        {"peak_allocated_bytes": 101},
        {"peak_allocated_bytes": 79},
        {"peak_reserved_bytes": 201},
        {"batch_bytes": 11},
        {"least_batch_bytes": 4},
    ],
)
def test_whatever_an_advice_rests_on_is_kept(more):
    peak = Peak(8, 100, 200, batch_bytes=10, least_batch_bytes=5)
    others = [peak, replace(peak, peak_allocated_bytes=80)]
    assert not says_more(replace(peak, peak_allocated_bytes=90), others)
    assert says_more(replace(peak, **more), others)
