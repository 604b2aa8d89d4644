import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.analysis.run.level_of_detail import bucket_steps

durations = st.lists(st.integers(0, 10**9), min_size=1, max_size=200)


@given(durations, st.integers(1, 50))
def test_every_step_is_in_one_bucket_and_no_time_is_lost(values, buckets):
    dur = np.array(values, dtype=np.int64)
    bucketed = bucket_steps(dur, {"all": dur}, 0 * dur, first=0, last=len(dur), buckets=buckets)
    assert bucketed.count.sum() == len(dur)
    assert len(bucketed.first) == min(buckets, len(dur))
    total = (bucketed.mean_ns["all"] * bucketed.count).sum()
    assert abs(total - dur.sum()) <= len(dur)
    assert [dur[i] for i in bucketed.slowest] == bucketed.max_ns.tolist()


def test_a_range_keeps_the_indices_of_the_whole_run():
    dur = np.arange(100, dtype=np.int64)
    bucketed = bucket_steps(dur, {}, 0 * dur, first=40, last=60, buckets=2)
    assert bucketed.first.tolist() == [40, 50]
    assert bucketed.slowest.tolist() == [49, 59]


def test_flags_of_a_bucket_are_those_of_any_of_its_steps():
    dur = np.ones(4, dtype=np.int64)
    flags = np.array([0, 8, 16, 1], dtype=np.int64)
    bucketed = bucket_steps(dur, {}, flags, first=0, last=4, buckets=2)
    assert bucketed.flags.tolist() == [8, 17]
