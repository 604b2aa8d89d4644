import numpy as np
import pytest

from lightning_gpuprof.analysis.run.throughput import MIN_STEPS, knee, size_rates
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import NOT_MEASURED, SCHEMA_VERSION, RunStart

START = RunStart(schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0)


def session(samples, dur_ns, **more):
    columns = {"samples": np.array(samples), "dur_ns": np.array(dur_ns)}
    columns |= {name: np.array(values) for name, values in more.items()}
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


def test_where_the_device_holds_the_host_back_a_size_is_as_fast_as_its_marked_steps_there():
    samples = [8] * 20 + [16] * 20
    device = [10_000_000] * 20 + [NOT_MEASURED] * 15 + [20_000_000] * 5
    of = session(samples, [1_000_000] * 40, device_dur=device)
    steady = np.ones(40, dtype=bool)
    (rate,) = size_rates(of, steady, by_device=True)  # too few of the larger one were marked
    assert (rate.samples, rate.samples_per_s, rate.steps) == (8, 800, 20)
    assert [one.samples_per_s for one in size_rates(of, steady)] == [8_000, 16_000]


def test_without_batch_sizes_there_are_no_rates():
    nothing = Session(start=START, records=(), columns={})
    assert size_rates(nothing, np.zeros(0, dtype=bool)) == ()
