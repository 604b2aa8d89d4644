import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticSpec, answers

from lightning_gpuprof.analysis.critical_path.replay import what_if
from lightning_gpuprof.analysis.trace.linked_trace import link
from lightning_gpuprof.traces import open_timeline


def replayed(timeline):
    return what_if(link(timeline))


def length(timeline):
    tables = [table for table in (timeline.host, timeline.device) if len(table)]
    return max(int(t.end_ns.max()) for t in tables) - min(int(t.start_ns[0]) for t in tables)


@settings(max_examples=30, deadline=None)
@given(st.from_type(SyntheticSpec))
def test_unchanged_a_trace_lasts_as_long_as_it_did_and_shorter_parts_never_make_it_longer(
    read_synthetic, spec
):
    timeline = read_synthetic(spec)
    found = replayed(timeline)

    assert found.span_ns == length(timeline)
    for saving in found.savings:
        assert 0 <= saving.saved_ns <= found.span_ns
        assert saving.span_ns == found.span_ns - saving.saved_ns


@pytest.mark.parametrize(
    ("cause", "part"),
    [
        ("python", "host/python"),
        ("region", "host/region"),
        ("allocator", "host/allocator"),
        ("sync", "sync"),
    ],
)
def test_without_the_cause_of_every_gap_the_gaps_are_saved(read_synthetic, cause, part):
    spec = SyntheticSpec(steps=4, gaps_ns={cause: 60_000}, comm_ns=0, exposed_comm_ns=0)
    found = replayed(read_synthetic(spec))

    assert found.of(part).saved_ns == spec.steps * 60_000


def test_waits_of_queued_work_are_saved_with_the_queue(read_synthetic):
    spec = SyntheticSpec(steps=4, gaps_ns={"dependency": 60_000}, comm_ns=0, exposed_comm_ns=0)
    found = replayed(read_synthetic(spec))

    assert found.of("queue").saved_ns == spec.steps * 60_000


def test_a_device_bound_trace_gains_from_the_device_alone(read_synthetic):
    spec = SyntheticSpec(steps=3, gaps_ns={}, kernel_ns=40_000, comm_ns=0, exposed_comm_ns=0)
    found, known = replayed(read_synthetic(spec)), answers(spec)

    assert found.of("device/gemm").saved_ns > 0.4 * found.span_ns
    assert found.of("host").saved_ns < 0.05 * found.span_ns
    assert found.of("host").span_ns >= known.busy_ns


@pytest.mark.parametrize(
    "name",
    [
        "tracelens-h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
        "tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz",
        "hta/trace_diff/control/control.json.gz",
        "hta/critical_path/cuda_event_sync_multi_stream/event_sync_trace.json.gz",
        "hta/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz",
        "tracelens-misc/gpu_only_trace/gpu_only_trace.json.gz",
    ],
)
def test_real_traces_replay_to_their_own_length(shared_traces, name):
    timeline = open_timeline(str(shared_traces / "kineto" / name))
    found = replayed(timeline)

    assert found.span_ns == length(timeline)
    assert all(0 <= saving.saved_ns <= found.span_ns for saving in found.savings)


def test_a_host_that_only_frees_memory_gains_most_from_not_waiting(shared_traces):
    """A training loop without a memory pool: each hipFree waits for the device."""
    name = "kineto/tracelens-mi300/ddp_resnet18_no_pool/941dea22__train_resnet18.json.gz"
    found = replayed(open_timeline(str(shared_traces / name)))

    assert found.savings[0].part == "sync"
    assert found.savings[0].saved_ns > 0.5 * found.span_ns
