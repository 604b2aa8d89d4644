import pytest

from lightning_gpuprof.analysis.trace.launches import host_ranges
from lightning_gpuprof.analysis.trace_tables import RangeRow
from lightning_gpuprof.traces.builder import TimelineBuilder


@pytest.fixture
def timeline():
    builder = TimelineBuilder("made up")
    thread = builder.thread(1, 1)
    for name, category, start, end in (
        ("step", "user_annotation", 0, 100),
        ("step", "user_annotation", 100, 150),
        ("ncclAllReduce", "other", 10, 14),
        ("aten::mm", "cpu_op", 0, 90),
        ("hipLaunchKernel", "cuda_runtime", 0, 80),
    ):
        builder.host(start, end, name, category, thread)
    return builder.build()


def test_ranges_are_summed_by_name_longest_first(timeline):
    assert host_ranges(timeline) == (
        RangeRow("step", "user_annotation", 2, 150, 50, 100),
        RangeRow("ncclAllReduce", "other", 1, 4, 4, 4),
    )
