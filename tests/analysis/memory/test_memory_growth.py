import random

import pytest
from made_records import memory

from lightning_gpuprof.analysis.memory import memory_use as module
from lightning_gpuprof.memory.trend import theil_sen
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, RunStart

MIB = 2**20
GIB = 2**30


def memory_growth(of):
    return module.memory_growth(of)[0]


START = RunStart(schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)


def session(allocated, *, total=24 * GIB):
    records = tuple(
        memory(int(used) + 4 * GIB, step=50 * window, allocated_bytes=int(used), total_bytes=total)
        for window, used in enumerate(allocated, start=1)
    )
    return Session(start=START, records=records, columns={})


def test_a_planted_leak_is_found_with_its_rate_and_the_steps_left():
    growth = memory_growth(session([2 * GIB + 50 * MIB * window for window in range(20)]))
    assert growth.bytes_per_step == MIB
    # 24 GiB less the last peak of 6 GiB and 950 MiB, at 1 MiB per step.
    assert growth.steps_left == 18 * 1024 - 950


def test_a_leak_under_noise_is_found():
    noise = random.Random(0)
    leak = [2 * GIB + 50 * MIB * window + noise.gauss(0, 60 * MIB) for window in range(40)]
    growth = memory_growth(session(leak))
    assert growth.bytes_per_step == pytest.approx(MIB, rel=0.1)


@pytest.mark.parametrize("seed", range(50))
def test_a_noisy_flat_run_says_nothing(seed):
    noise = random.Random(seed)
    flat = [2 * GIB + noise.gauss(0, 200 * MIB) for _ in range(40)]
    assert memory_growth(session(flat)) is None


@pytest.mark.parametrize(
    "allocated",
    [
        [2 * GIB] * 100,
        [GIB, *[2 * GIB] * 30],  # state made in the first window
        [2 * GIB] * 10 + [3 * GIB] * 10,  # a single jump
        [2 * GIB + 50 * MIB * min(window, 15) for window in range(30)],  # a cache that fills
        [3 * GIB - 50 * MIB * window for window in range(20)],
        [2 * GIB + 1024 * window for window in range(20)],  # too small to matter
    ],
)
def test_what_does_not_rise_steadily_is_no_growth(allocated):
    assert memory_growth(session(allocated)) is None
    assert memory_growth(session(allocated, total=0)) is None


def test_without_a_gpu_the_process_is_watched():
    notes = tuple(ProcessMemory(50 * window, GIB + 10 * MIB * window) for window in range(20))
    growth, watched = module.memory_growth(Session(start=START, records=notes, columns={}))
    assert watched
    assert not growth.of_device
    assert growth.steps_left is None
    assert growth.bytes_per_step == 10 * MIB / 50


def test_it_is_said_whether_memory_was_read_often_enough():
    assert module.memory_growth(session([GIB] * 9)) == (None, True)
    assert module.memory_growth(session([GIB] * 8)) == (None, False)


def test_the_interval_is_the_one_of_sen():
    # Gilbert, Statistical Methods for Environmental Pollution Monitoring, gives the ranks as
    # (N - C) / 2 and (N + C) / 2 of the sorted slopes, C = 1.96 * sqrt(n (n - 1) (2n + 5) / 18).
    middle, low, high = theil_sen([1, 2, 3, 4, 5], [10, 15, 14, 20, 24])
    slopes = sorted((b - a) / (j - i) for i, a in enumerate([10, 15, 14, 20, 24])
                    for j, b in enumerate([10, 15, 14, 20, 24]) if j > i)  # fmt: skip
    assert middle == (slopes[4] + slopes[5]) / 2
    assert (low, high) == (slopes[0], slopes[9])
