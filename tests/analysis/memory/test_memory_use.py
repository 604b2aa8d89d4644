import random
from functools import partial

import pytest
from made_records import memory

from lightning_gpuprof.analysis.memory import memory_use as module
from lightning_gpuprof.memory.trend import theil_sen
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, Advice, AdviceDetails, RunStart

MIB = 2**20
GIB = 2**30


def memory_growth(of):
    return module.memory_growth(of)[0]


START = RunStart(schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)


def bare(*records):
    return Session(start=START, records=records, columns={})


def session(allocated, *, total=24 * GIB):
    return bare(*(
        memory(used + 4 * GIB, step=50 * window, allocated_bytes=used, total_bytes=total)
        for window, used in enumerate(map(int, allocated), start=1)
    ))  # fmt: skip


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
    growth, watched = module.memory_growth(bare(*notes))
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


def advised(*suggested, **changes):
    return bare(*(
        Advice(step=step, batch_size=16, suggested_batch_size=size, **changes)
        for step, size in enumerate(suggested)
    ))  # fmt: skip


def test_the_rank_with_the_least_headroom_decides():
    advice = module.rank_advice({0: advised(32, 64), 1: advised(48)})
    assert advice.suggested_batch_size == 48
    assert advice.details == AdviceDetails(rank=1, ranks_advised=2)


def test_of_ranks_held_at_one_size_the_one_whose_band_begins_lower_speaks():
    advice = module.rank_advice({0: advised(64, low=64), 1: advised(64, low=40)})
    assert advice.details.rank == 1


def test_a_rank_that_suggests_nothing_withholds_it_for_all():
    advice = module.rank_advice({0: advised(64), 1: advised(None, reason="CUDA graphs")})
    assert advice.suggested_batch_size is None
    assert advice.reason == "rank 1: CUDA graphs"


def test_a_rank_that_measured_nothing_is_said():
    advice = module.rank_advice({0: advised(64), 1: advised()})
    assert advice.suggested_batch_size == 64
    assert advice.reason == "1 of 2 ranks measured no memory"


def test_memory_that_grows_withholds_what_was_suggested_before_it_showed():
    sizes = {"bytes_per_step": MIB, "last_bytes": GIB, "steps_left": None}
    grown = partial(module.MemoryGrowth, **sizes)
    advice = module.rank_advice({0: advised(128)}, grown(of_device=True))
    assert (advice.batch_size, advice.suggested_batch_size) == (16, None)
    assert advice.reason.startswith("memory between steps grows by 1.00 MiB per step")
    assert module.rank_advice({0: advised(128)}, grown(of_device=False)).suggested_batch_size == 128
