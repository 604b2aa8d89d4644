"""Fourier transforms by their lengths, as shapes and scalars recorded with them tell."""

import pytest

from lightning_gpuprof.analysis.trace.transforms import Transforms, transforms

US = 1_000


@pytest.fixture
def found(linked):
    return lambda *events: transforms(*linked(list(events)))


@pytest.fixture
def called(op):
    """Return an operator's call with the shape of its first input, and scalars."""

    def make(name, start, dur, shape, *values):
        event = op(name, start, dur)
        dims = [shape, *([] for _ in values)]
        shapes = {"Input Dims": dims, "Concrete Inputs": ["", *values]}
        return event | {"args": {**event.get("args", {}), **shapes}}

    return make


def test_sums_up_transforms_of_one_length_longest_first(found, called):
    there = called("aten::_fft_r2c", 0, 40, [4, 16, 6001], "[2]", "0", "True")
    back = called("aten::_fft_c2r", 100, 50, [4, 16, 3001], "[2]", "2", "6001")
    other = called("aten::_fft_c2c", 200, 20, [128, 64], "[0, 1]", "0", "True")
    assert found(there, back, other) == (
        Transforms((6001,), 2, 90 * US, padded=False),
        Transforms((128, 64), 1, 20 * US, padded=False),
    )


def test_tells_that_a_call_pads_what_it_transforms(found, called):
    there = called("aten::_fft_r2c", 2, 40, [16, 6001], "[1]", "0", "True")
    longer = called("aten::fft_rfft", 0, 45, [16, 3001], "6001", "-1", "")
    assert [one.padded for one in found(longer, there)] == [True]
    cut = called("aten::fft_rfft", 0, 45, [16, 9001], "6001", "-1", "")
    assert [one.padded for one in found(cut, there)] == [False]
    whole = called("aten::fft_rfft", 0, 45, [16, 6001], "", "-1", "")
    assert [one.padded for one in found(whole, there)] == [False]


def test_one_inside_another_is_counted_once(found, called):
    outer = called("aten::_fft_r2c", 0, 50, [8, 34], "[0, 1]", "0", "True")
    inner = called("aten::_fft_c2c", 10, 20, [8, 18], "[0]", "0", "True")
    assert [one.total_ns for one in found(outer, inner)] == [50 * US]


def test_says_nothing_of_lengths_that_were_not_recorded(found, called, op):
    assert found(op("aten::_fft_r2c", 0, 40)) == ()
    assert found(called("aten::_fft_c2r", 0, 40, [4, 9], "[1]", "2")) == ()
    assert found(called("aten::_fft_r2c", 0, 40, [4, 9], "[7]", "2", "")) == ()
