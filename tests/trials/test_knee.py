import pytest

from lightning_gpuprof.trials.knee import knee


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
