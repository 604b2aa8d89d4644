import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lightning_gpuprof.traces.columns import Columns
from lightning_gpuprof.traces.timeline import DeviceEvents

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
