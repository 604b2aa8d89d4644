import pytest

from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.analysis.trace.syncs import sync_calls
from lightning_gpuprof.traces import open_timeline

UP, DOWN = "Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"
PINNED = "Memcpy HtoD (Pinned -> Device)"
WITHIN = "Memcpy DtoD (Device -> Device)"


@pytest.fixture
def syncs_of(write_trace, launched):
    """Return the waits of a trace of one copy, and a kernel after it."""

    def found(dur, **copy):
        events = launched(1, 0, 10, dur, cat="gpu_memcpy", **copy)
        events += launched(2, 200, 210, 50)
        return sync_calls(link(open_timeline(write_trace(events))))

    return found


@pytest.mark.parametrize(
    ("name", "call", "call_dur", "waited", "uploaded"),
    [
        (UP, "cudaMemcpyAsync", 120, 1, 120_000),
        (DOWN, "cudaMemcpyAsync", 120, 1, 0),
        (PINNED, "cudaMemcpyAsync", 5, 0, 0),
        (PINNED, "cudaMemcpyAsync", 120, 0, 0),  # of a slow call
        (WITHIN, "cudaMemcpyAsync", 120, 0, 0),  # of a slow call
        (UP, "cudaMemcpy", 120, 1, 0),  # as a call that blocks
        (WITHIN, "cudaMemcpy", 120, 1, 0),
        (UP, "cudaMemcpyAsync", 105, 1, 105_000),  # its last piece on its way
        (UP, "cudaMemcpyAsync", 11, 0, 0),  # only queued
        (DOWN, "cudaMemcpyAsync", 105, 0, 0),  # goes on
    ],
)
def test_a_waiting_copy_to_the_device_is_told_from_a_read(
    syncs_of, name, call, call_dur, waited, uploaded
):
    found = syncs_of(100, name=name, call=call, call_dur=call_dur)
    assert (found.count, found.upload_ns) == (waited, uploaded)
    assert found.total_ns == waited * call_dur * 1_000


@pytest.mark.parametrize(("size", "waited"), [(64 << 10, 0), ((64 << 10) + 1, 1)])
def test_an_upload_of_64_kib_is_taken_over_at_once_however_slow_the_call(syncs_of, size, waited):
    assert syncs_of(2, name=UP, call="cudaMemcpyAsync", call_dur=40, bytes=size).count == waited


@pytest.fixture
def analysed_syncs(write_trace):
    """Return the waits of a trace of some events."""
    return lambda *events: sync_calls(link(open_timeline(write_trace(events))))


def wait(op, start, dur, name="cudaDeviceSynchronize", **more):
    return op(name, start, dur, cat="cuda_runtime", **more)


def test_waits_in_steps_count_against_the_steps(analysed_syncs, op, step):
    found = analysed_syncs(
        *(step(1, 0, 50), step(2, 50, 50), op("aten::item", 10, 40)),
        *(wait(op, 10, 20), wait(op, 60, 10), wait(op, 65, 15, tid=2)),
        wait(op, 100, 900),  # the profiler's own, after the last step
    )
    assert (found.count, found.total_ns) == (3, 45_000)
    assert found.frac == 0.4  # two threads that wait at the same time count once


def test_the_wait_that_closes_a_trace_without_steps_does_not_count(analysed_syncs, op):
    events = (op("aten::item", 0, 80), wait(op, 20, 20), op("aten::mul", 80, 20))
    assert analysed_syncs(*events, wait(op, 100, 900)).frac == 0.2
    read = wait(op, 100, 100, "cudaStreamSynchronize")
    assert analysed_syncs(*events, read).frac == 0.6
