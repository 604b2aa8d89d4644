import pytest

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace.syncs import sync_calls
from lightning_gpuprof.traces import open_timeline

UP, DOWN = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
PINNED = "Memcpy HtoD (Pinned -> Device)"
WITHIN = "Memcpy DtoD (Device -> Device)"


@pytest.mark.parametrize(
    ("name", "call", "call_dur", "waited", "uploaded"),
    [
        (UP, "cudaMemcpyAsync", 120, 1, 120_000),
        (DOWN, "cudaMemcpyAsync", 120, 1, 0),
        (PINNED, "cudaMemcpyAsync", 5, 0, 0),
        (PINNED, "cudaMemcpyAsync", 120, 0, 0),
        (WITHIN, "cudaMemcpyAsync", 120, 0, 0),
        (UP, "cudaMemcpy", 120, 1, 0),
        (WITHIN, "cudaMemcpy", 120, 1, 0),
        (UP, "cudaMemcpyAsync", 105, 1, 105_000),
        (UP, "cudaMemcpyAsync", 11, 0, 0),
        (DOWN, "cudaMemcpyAsync", 105, 0, 0),
    ],
    ids=[
        "pageable upload",
        "read",
        "pinned upload",
        "pinned upload of a slow call",
        "copy on the device of a slow call",
        "blocking upload",
        "blocking copy on the device",
        "pageable upload, its last piece on its way",
        "pageable upload that is only queued",
        "read that goes on",
    ],
)
def test_a_waiting_copy_to_the_device_is_told_from_a_read(
    write_trace, launched, name, call, call_dur, waited, uploaded
):
    copy = launched(1, 0, 10, 100, name=name, call=call, cat="gpu_memcpy", call_dur=call_dur)
    kernel = launched(2, 200, 210, 50)

    found = sync_calls(link(open_timeline(write_trace([*copy, *kernel]))))

    assert (found.count, found.upload_ns) == (waited, uploaded)
    assert found.total_ns == waited * call_dur * 1_000


def test_an_upload_of_64_kib_is_taken_over_at_once_however_slow_the_call(write_trace, launched):
    def of(size):
        copy = launched(1, 0, 10, 2, name=UP, call="cudaMemcpyAsync", call_dur=40, bytes=size)
        copy[1]["cat"] = "gpu_memcpy"
        return sync_calls(link(open_timeline(write_trace([*copy, *launched(2, 200, 210, 50)]))))

    assert (of(64 << 10).count, of((64 << 10) + 1).count) == (0, 1)
