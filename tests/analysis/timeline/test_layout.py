import numpy as np
import pytest
from analyzed import analyze_timeline
from synthetic import SyntheticSpec

from lightning_gpuprof.analysis.timeline.cut import LayoutCutter
from lightning_gpuprof.analysis.timeline.layout import KINDS, lay_out
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.builder import TimelineBuilder


@pytest.fixture(scope="module")
def spec():
    return SyntheticSpec(steps=3, stack_depth=4)


@pytest.fixture(scope="module")
def timeline(spec, read_synthetic):
    return read_synthetic(spec, ReadOptions(stacks=True))


@pytest.fixture(scope="module")
def layout(timeline):
    return lay_out(timeline)


def names(layout, events):
    return [layout.names[layout.name[event]] for event in events]


def of_group(layout, kind):
    found = [np.zeros(0, dtype=np.int64)]
    for group in layout.groups:
        if group.kind == kind:
            first, last = layout.lane_first[[group.first, group.first + group.lanes]]
            found.append(np.arange(first, last))
    return np.concatenate(found)


def test_every_event_is_drawn_once_and_syncs_and_gaps_beside(layout, timeline):
    beside = len(of_group(layout, "idle")) + len(of_group(layout, "syncs"))
    assert len(layout) - beside == len(timeline.host) + len(timeline.device)


def test_no_two_events_of_a_lane_overlap(layout):
    for first, last in zip(layout.lane_first[:-1], layout.lane_first[1:], strict=True):
        ends = (layout.start_ns + layout.dur_ns)[first:last]
        assert (layout.start_ns[first + 1 : last] >= ends[:-1]).all()


def test_gaps_carry_the_cause_that_was_planted(layout, spec):
    idle = of_group(layout, "idle")
    total = {}
    for cause, ns in zip(names(layout, idle), layout.dur_ns[idle].tolist(), strict=True):
        total[cause] = total.get(cause, 0) + ns
    assert total["host_sync"] == spec.steps * spec.gaps_ns["sync"]
    assert total["dependency"] == spec.steps * spec.gaps_ns["dependency"]
    assert total["host_region"] == spec.steps * spec.gaps_ns["region"]


def test_a_kernel_leads_to_its_launch_and_the_launch_to_its_operator_and_stack(layout):
    kernel = next(e for e in of_group(layout, "stream") if "gemm" in names(layout, [e])[0])
    launch = int(layout.partner[kernel])
    assert KINDS[layout.kind[launch]] == "runtime"
    assert layout.partner[launch] == kernel
    around, event = [], int(layout.parent[launch])
    while event >= 0:
        around.append(KINDS[layout.kind[event]])
        event = int(layout.parent[event])
    assert around[0] == "operator"
    assert "python" in around


def test_a_cut_of_the_whole_holds_every_event(layout):
    cutter = LayoutCutter(layout)
    lanes = range(len(layout.lane_first) - 1)
    for columns in (1, 10, 1_000, 1_000_000):
        cut = cutter.cut(lanes, *layout.span, columns)
        assert cut.count.sum() == len(layout)


def lane_of_short_events(count):
    made = TimelineBuilder("made up")
    thread = made.thread(1, 1)
    for start in range(0, 10 * count, 10):
        made.host(start, start + 5, "op", "cpu_op", thread)
    return lay_out(made.build())


def test_a_coarse_cut_takes_neighbours_shorter_than_a_pixel_together():
    cut = LayoutCutter(lane_of_short_events(100)).cut([0], 0, 1000, 10)
    assert cut.count.tolist() == [10] * 10
    assert cut.start_ns.tolist() == list(range(0, 1000, 100))
    assert set(cut.name.tolist()) == {-1}


def test_a_cut_never_holds_more_blocks_than_can_be_drawn():
    cutter = LayoutCutter(lane_of_short_events(100_000))
    cut = cutter.cut([0], 0, 1_000_000, 1_000_000)
    assert len(cut.lane) <= 30_000
    assert cut.count.sum() == 100_000


def test_drawn_idle_time_has_the_causes_of_the_tables_though_stacks_are_drawn(
    write_trace, op, launched
):
    path = write_trace(
        [
            op("augment", 0, 100, cat="user_annotation"),
            op("train.py(1): augment", 5, 85, cat="python_function", **{"Python id": 1}),
            op("aten::mm", 10, 20),
            *launched(1, 11, 12, 10),
            *launched(2, 96, 97, 10),
        ]
    )
    timeline = open_timeline(path, ReadOptions(stacks=True))
    layout = lay_out(timeline)
    idle = of_group(layout, "idle")
    analysis = analyze_timeline(timeline)

    assert names(layout, idle) == [gap.cause for gap in analysis.gaps] == ["host_region"]
