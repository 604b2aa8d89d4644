import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticSpec, answers

from lightning_gpuprof.analysis.critical_path.critical_path import critical_path
from lightning_gpuprof.analysis.critical_path.path_walk import KINDS
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.builder import TimelineBuilder


def walk(timeline, **options):
    return critical_path(link(timeline), **options)


@settings(max_examples=40, deadline=None)
@given(st.from_type(SyntheticSpec))
def test_segments_join_without_gap_or_overlap_and_cover_the_span(read_synthetic, spec):
    path = walk(read_synthetic(spec))

    start, dur = path.rows.start_ns, path.rows.dur_ns
    assert (dur > 0).all()
    assert [*start, path.end_ns] == [path.start_ns, *(start + dur)]
    assert sum(path.kind_ns.values()) == path.span_ns
    assert sum(part.total_ns for part in path.parts()) == path.span_ns


def test_with_a_sync_in_every_gap_the_path_runs_through_all_device_work(read_synthetic):
    spec = SyntheticSpec(steps=3, gaps_ns={"sync": 40_000}, comm_ns=0, exposed_comm_ns=0)
    path, known = walk(read_synthetic(spec)), answers(spec)
    kinds = path.kind_ns

    # The copy that opens a step was launched while the device was busy: no sync before it.
    assert kinds["device"] == known.busy_ns
    assert kinds["sync"] == spec.steps * (40_000 - spec.launch_latency_ns)
    assert kinds["launch"] == path.span_ns - known.busy_ns - kinds["sync"] - kinds["host"]


@pytest.mark.parametrize("cause", ["python", "region", "allocator", "data_wait"])
def test_where_the_host_is_late_and_never_waits_the_path_is_the_hosts(read_synthetic, cause):
    spec = SyntheticSpec(steps=3, gaps_ns={cause: 60_000}, comm_ns=0, exposed_comm_ns=0)
    path = walk(read_synthetic(spec))
    kinds = path.kind_ns

    # Only the work after the last launch that the device waited for is on the path.
    last_burst = spec.burst_ns + (spec.copy_ns if cause == "data_wait" else 0)
    assert kinds["device"] == last_burst
    assert kinds["sync"] == 0
    names = {part.name for part in path.parts()[:2]}
    expected = {
        "python": "ProfilerStep",
        "region": "augment",
        "allocator": "cudaMalloc",
        "data_wait": "enumerate(DataLoader)",
    }[cause]
    assert any(name.startswith(expected) or name == "nothing recorded" for name in names)


def test_work_of_another_thread_is_followed_where_the_first_has_none():
    made = TimelineBuilder("made up")
    first, other = made.thread(1, 1), made.thread(1, 2)
    made.host(0, 100, "backward", "user_annotation", first)
    made.host(10, 90, "aten::mm", "cpu_op", other)
    made.host(92, 96, "aten::add", "cpu_op", first)
    path = walk(made.build())

    assert list(zip(map(path.name, path.rows.name), path.rows.dur_ns, strict=True)) == [
        ("backward", 10),
        ("aten::mm", 80),
        ("backward", 2),
        ("aten::add", 4),
        ("backward", 4),
    ]


def test_a_path_can_be_cut_to_a_window(read_synthetic):
    path = walk(read_synthetic(SyntheticSpec(steps=2)))
    middle = (path.start_ns + path.end_ns) // 2
    first, second = path.within(0, middle), path.within(middle, path.end_ns)

    for kind in KINDS:
        assert first.kind_ns[kind] + second.kind_ns[kind] == path.kind_ns[kind]
    assert first.span_ns + second.span_ns == path.span_ns


def test_an_empty_trace_has_no_path():
    assert walk(TimelineBuilder("empty").build()) is None


@pytest.mark.parametrize(
    "name",
    [
        "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz",
        "tracelens-misc/gpu_only_trace/gpu_only_trace.json.gz",
        "hta/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
        "hta/critical_path/alexnet/benchmark_result_2869224_1695835535_trace.json.gz",
        "kineto-v100/234cf25d__worker0.1623212756351.pt.trace.json.gz",
    ],
)
def test_real_traces_have_a_path_that_covers_their_span(shared_traces, name):
    timeline = open_timeline(str(shared_traces / "kineto" / name))
    path = walk(timeline)

    assert path.rows.dur_ns.sum() == path.span_ns
    ends = [table.end_ns.max() for table in (timeline.host, timeline.device) if len(table)]
    assert path.end_ns <= max(ends)
    assert path.start_ns == 0
