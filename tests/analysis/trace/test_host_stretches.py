from lightning_gpuprof.analysis.trace_analysis import analyze_timeline
from lightning_gpuprof.traces import open_timeline


def stretches(path):
    (device,) = analyze_timeline(open_timeline(path)).devices
    return device.idle.stretches


def at_a_pace(launched, first, start, count, every=20):
    """Launch kernels of 5 us one by one."""
    times = ((first + i, start + every * i) for i in range(count))
    return [event for n, at in times for event in launched(n, at, at + 5, 5)]


def test_a_gap_of_many_launches_is_told_by_what_the_host_did(write_trace, op, launched):
    path = write_trace(
        [
            *at_a_pace(launched, 1, 0, 30),  # until 590
            op("count", 600, 300, cat="user_annotation"),
            *at_a_pace(launched, 40, 950, 5),
        ]
    )
    found = stretches(path)
    assert (found.pace_ns, found.count, found.copied) == (20_000, 1, {})
    assert found.causes == {"host_region": 300_000, "host_python": 60_000}


def test_what_the_host_does_behind_a_copy_to_it_is_told_apart(write_trace, launched):
    copy = {"call": "cudaMemcpyAsync", "cat": "gpu_memcpy", "call_dur": 30}
    name = "Memcpy DtoH (Device -> Pageable)"
    path = write_trace(
        [
            *at_a_pace(launched, 1, 0, 30),
            *launched(40, 600, 610, 20, name=name, **copy),  # until 630
            *at_a_pace(launched, 50, 900, 5),
            *at_a_pace(launched, 60, 1_300, 5),  # a stretch behind a kernel
        ]
    )
    found = stretches(path)
    assert (found.count, found.copied_count) == (2, 1)
    assert found.copied == {"host_python": 270_000}


def test_of_few_launches_no_pace_is_known(write_trace, launched):
    assert stretches(write_trace(at_a_pace(launched, 1, 0, 10))) is None


def test_kernels_of_a_graph_are_counted_apart(write_trace, launched):
    graph = launched(1, 0, 5, 4, call="cudaGraphLaunch")
    second = {**graph[1], "ts": 15, "dur": 30}
    path = write_trace([*graph, second, *launched(2, 50, 55, 4)])
    launches = analyze_timeline(open_timeline(path)).launches
    assert (launches.graphed_count, launches.graphed_thin_count) == (2, 1)
