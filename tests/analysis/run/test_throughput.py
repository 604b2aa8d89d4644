import numpy as np
import pytest

from lightning_gpuprof.analysis.run.throughput import MIN_STEPS, knee, size_rates
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import SCHEMA_VERSION, RunStart

START = RunStart(schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)


def session(samples, dur_ns):
    columns = {"samples": np.array(samples), "dur_ns": np.array(dur_ns)}
    columns["step"] = np.arange(len(samples))
    return Session(start=START, records=(), columns=columns)


@pytest.mark.parametrize(
    ("rates", "samples", "reached"),
    [
        ({8: 100, 16: 180, 32: 184, 64: 186}, 16, True),
        ({8: 100, 16: 180, 32: 300}, 32, False),
        # A slow size in between does not hide a faster one behind it.
        ({8: 100, 16: 90, 32: 200, 64: 201}, 32, True),
        ({8: 100, 16: 60}, 8, True),
        ({8: 100, 16: 200, 32: 100}, 16, True),
    ],
)
def test_the_knee_is_where_more_memory_buys_less_than_five_percent(rates, samples, reached):
    found = knee(rates)
    assert (found.samples, found.reached) == (samples, reached)


def test_one_size_has_no_knee():
    assert knee({8: 100.0}) is None
    assert knee(()) is None


def test_each_size_that_ran_often_enough_has_its_rate_by_the_median_step():
    samples = [8] * 20 + [16] * 20 + [3] * (MIN_STEPS - 1)
    dur = [10_000_000] * 19 + [10**9] + [10_000_000] * 20 + [1] * (MIN_STEPS - 1)
    of = session(samples, dur)
    rates = size_rates(of, np.ones(len(samples), dtype=bool))
    assert [(rate.samples, rate.samples_per_s, rate.steps) for rate in rates] == [
        (8, 800.0, 20),
        (16, 1600.0, 20),
    ]
    assert knee(rates).samples == 16


def test_without_batch_sizes_there_are_no_rates():
    nothing = Session(start=START, records=(), columns={})
    assert size_rates(nothing, np.zeros(0, dtype=bool)) == ()
