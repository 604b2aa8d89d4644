"""The whole chain, file to analysis, on generated traces whose answers are known."""

from dataclasses import replace

from analyzed import analyze_timeline, devices_of
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof.analysis.trace.grouping import named
from lightning_gpuprof.analysis.trace.step_marks import is_step
from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import select

# What each planted cause is called in our analysis.
OURS = {
    "data_wait": "host_data_wait",
    "python": "host_python",
    "sync": "host_sync",
    "allocator": "host_allocator",
    "region": "host_region",
    "dependency": "dependency",
    "launch_latency": "launch_latency",
}
LATENCY_NS = SyntheticSpec.launch_latency_ns


def analysed(path, spec, *, marks=True):
    known = write_synthetic(path, spec)
    timeline = open_timeline(str(path))
    if not marks:
        kept = select(timeline.host, ~named(timeline, is_step))
        timeline = replace(timeline, host=kept)
    return analyze_timeline(timeline), known


@settings(max_examples=20, deadline=None)
@given(st.from_type(SyntheticSpec))
def test_the_time_split_is_the_known_one_on_every_device(tmp_path_factory, spec):
    found, known = analysed(tmp_path_factory.mktemp("s") / "trace.json.gz", spec)

    assert [one.device for one in devices_of(found)] == list(range(spec.devices))
    for one in devices_of(found):
        split = one.first_to_last
        assert split.span_ns == known.span_ns
        assert split.busy_ns == known.busy_ns
        assert split.compute_ns == known.compute_ns
        assert split.comm_ns == known.comm_ns
        assert split.copy_ns == known.copy_ns
        assert split.exposed_comm_ns == known.exposed_comm_ns
        assert split.exposed_copy_ns == known.exposed_copy_ns
        parts = (split.compute_ns, split.exposed_comm_ns, split.exposed_copy_ns, split.idle_ns)
        assert sum(parts) == split.span_ns


@settings(max_examples=20, deadline=None)
@given(st.from_type(SyntheticSpec))
def test_each_planted_gap_is_given_to_its_cause(tmp_path_factory, spec):
    # From the first event to the last: the wait before it belongs to the first step.
    found, known = analysed(tmp_path_factory.mktemp("s") / "trace.json.gz", spec, marks=False)

    expected = {}
    for cause, total in known.idle_ns.items():
        latency = 0
        if cause not in ("dependency", "launch_latency"):
            latency = known.idle_count[cause] * LATENCY_NS
        for name, part in ((OURS[cause], total - latency), ("launch_latency", latency)):
            expected[name] = expected.get(name, 0) + part
    expected = {name: total for name, total in expected.items() if total}
    for one in devices_of(found):
        ours = {row.cause: row.total_ns for row in one.idle}
        assert sum(ours.values()) == one.idle_ns
        assert ours == expected


@settings(max_examples=10, deadline=None)
@given(st.from_type(SyntheticSpec))
def test_kernels_copies_steps_and_launches_are_counted(tmp_path_factory, spec):
    found, known = analysed(tmp_path_factory.mktemp("s") / "trace.json", spec)

    kernels = {row.name: (row.count, row.total_ns) for row in found.kernels}
    copies = {row.kind: (row.count, row.bytes, row.total_ns) for row in found.copies}
    times = spec.devices
    assert kernels == {
        name: (count * times, total * times) for name, (count, total) in known.kernels.items()
    }
    assert copies == {
        name: tuple(value * times for value in values) for name, values in known.copies.items()
    }
    assert len(found.steps) == known.steps * times
    assert found.launches.count == known.launches * times
    assert found.quality.lost_kernels == found.quality.orphan_kernels == 0
