import pytest

from lightning_gpuprof.errors import ConfigError
from lightning_gpuprof.trials.messages import TunePoint
from lightning_gpuprof.trials.tune import judge, knee, samples_per_s, tune

MIB = 2**20
TOTAL = 10_000 * MIB
BAND = (0.6, 0.8)


def point(size, rate, *, per_sample=None, **facts):
    """Return a size that trained `rate` samples per second, on a GPU where memory is given."""
    if per_sample is not None:
        peak = (1_000 + per_sample * size) * MIB
        facts |= {"peak_allocated_bytes": peak, "peak_reserved_bytes": peak}
        facts |= {"total_bytes": TOTAL, "others_bytes": 500 * MIB, "resting_bytes": 1_000 * MIB}
    return TunePoint(batch_size=size, device="any", step_ns=round(size * 1e9 / rate), **facts)


def test_on_a_cpu_the_throughput_alone_decides():
    tuned = judge([point(8, 100), point(16, 180), point(32, 185)], band=BAND)
    assert tuned.suggested == 16
    assert tuned.reason == "above it more buys less than 5% of throughput"
    assert tuned.memory is None
    assert [samples_per_s(one) for one in tuned.points] == pytest.approx([100, 180, 185])


def test_where_throughput_still_rises_the_fastest_is_said_to_be_no_end():
    tuned = judge([point(8, 100), point(16, 180)], band=BAND)
    assert tuned.suggested == 16
    assert "may rise further" in tuned.reason


def test_with_memory_the_band_is_filled_where_throughput_still_rises():
    tuned = judge([point(16, 100, per_sample=50), point(32, 180, per_sample=50)], band=BAND)
    assert tuned.suggested == tuned.memory.suggested == 104
    assert tuned.memory.per_sample_bytes == 50 * MIB


def test_a_knee_above_the_memory_band_is_cut_there():
    rates = {8: 100, 16: 200, 32: 400, 64: 800, 128: 810}
    points = [point(size, rate, per_sample=120) for size, rate in rates.items()]
    tuned = judge(points, band=BAND)
    assert tuned.knee.samples == 64
    assert tuned.suggested == tuned.memory.high == 54
    assert "memory band ends" in tuned.reason


def make():
    """Stand for a user's function at the top of a file."""


def test_sizes_above_the_first_that_runs_out_of_memory_are_not_run(monkeypatch):
    asked = []

    def measured(request, kind):
        asked.append(request)
        if request.batch_size > 16:
            return TunePoint(batch_size=32, device="cuda", out_of_memory=True, error="OOM")
        return point(request.batch_size, 100 * request.batch_size, per_sample=100)

    monkeypatch.setattr("lightning_gpuprof.trials.tune.ask", measured)
    tuned = tune(make, [64, 8, 32, 16, 8], steps=3, precision="bf16-mixed")
    assert [request.batch_size for request in asked] == [8, 16, 32]
    assert (asked[0].model, asked[0].precision) == (f"{__file__}:make", "bf16-mixed")
    assert tuned.points[-1].out_of_memory
    assert tuned.suggested is not None


def test_where_nothing_ran_nothing_is_suggested():
    tuned = judge([TunePoint(batch_size=8, error="killed")], band=BAND)
    assert (tuned.suggested, tuned.reason) == (None, "no size ran")


def test_memory_that_withholds_withholds_here_too():
    tuned = judge([point(16, 100, per_sample=50), point(32, 200, per_sample=1)], band=BAND)
    assert tuned.suggested is None
    assert "does not grow" in tuned.reason


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (make, {"batch_sizes": []}, "1 or more"),
        (make, {"batch_sizes": [8, 0]}, "1 or more"),
        (make, {"steps": 0}, "would measure nothing"),
        (lambda: None, {}, "cannot be found by another process"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(function, options, message):
    with pytest.raises(ConfigError, match=message):
        tune(function, **options)


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
