import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.traces.columns import Columns
from lightning_gpuprof.traces.timeline import DeviceEvents, HostEvents

numbers = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-2, 2), st.just(2**31))


def wide(values):
    return np.array(values, dtype=np.int64)


@given(st.lists(st.lists(numbers, max_size=5), min_size=1))
def test_what_is_added_piece_by_piece_comes_out_whatever_its_width(pieces):
    columns = Columns()
    for piece in pieces:
        if piece:
            times = np.zeros(len(piece), dtype=np.int64)
            columns.add(start_ns=times, dur_ns=times, correlation=wide(piece))

    table = columns.table(DeviceEvents)

    assert table.correlation.tolist() == [value for piece in pieces for value in piece]


def test_ids_and_durations_take_32_bits_until_one_does_not_fit():
    columns = Columns()
    columns.add(start_ns=wide([1, 2]), dur_ns=wide([1, 9]), correlation=wide([3, 4]))
    columns.add(start_ns=wide([3]), dur_ns=wide([5]), correlation=wide([2**40]))

    table = columns.table(HostEvents)

    assert table.correlation.tolist() == [3, 4, 2**40]
    assert table.dur_ns.dtype == np.int32
    assert table.end_ns.tolist() == [2, 11, 8]


@pytest.mark.parametrize("value", [-1, 0, 2**40])
def test_a_column_of_one_value_takes_no_memory(value):
    columns = Columns()
    columns.add(start_ns=wide([3, 1, 2]), dur_ns=wide([0, 0, 0]), stream=wide([value] * 3))

    stream = columns.table(DeviceEvents).stream

    assert stream.tolist() == [value] * 3
    assert stream.strides == (0,)
