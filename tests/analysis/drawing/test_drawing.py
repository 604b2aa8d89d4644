import numpy as np
import pytest
from synthetic import SyntheticSpec

from lightning_gpuprof.analysis.drawing.drawing import make_drawing
from lightning_gpuprof.analysis.drawing.drawing_cut import DrawingCutter
from lightning_gpuprof.analysis.drawing.kinds import KINDS
from lightning_gpuprof.analysis.trace_analysis import analyze_timeline
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.timeline import DeviceEvents, HostEvents, Thread, Timeline, make_table


@pytest.fixture(scope="module")
def spec():
    return SyntheticSpec(steps=3, stack_depth=4)


@pytest.fixture(scope="module")
def timeline(spec, read_synthetic):
    return read_synthetic(spec, ReadOptions(stacks=True))


@pytest.fixture(scope="module")
def drawing(timeline):
    return make_drawing(timeline)


def names(drawing, events):
    return [drawing.names[drawing.name[event]] for event in events]


def of_group(drawing, kind):
    found = [np.zeros(0, dtype=np.int64)]
    for group in drawing.groups:
        if group.kind == kind:
            first, last = drawing.lane_first[[group.first, group.first + group.lanes]]
            found.append(np.arange(first, last))
    return np.concatenate(found)


def test_every_event_is_drawn_once_and_syncs_and_gaps_beside(drawing, timeline):
    beside = len(of_group(drawing, "idle")) + len(of_group(drawing, "syncs"))
    assert len(drawing) - beside == len(timeline.host) + len(timeline.device)


def test_no_two_events_of_a_lane_overlap(drawing):
    for first, last in zip(drawing.lane_first[:-1], drawing.lane_first[1:], strict=True):
        ends = (drawing.start_ns + drawing.dur_ns)[first:last]
        assert (drawing.start_ns[first + 1 : last] >= ends[:-1]).all()


def test_gaps_carry_the_cause_that_was_planted(drawing, spec):
    idle = of_group(drawing, "idle")
    total = {}
    for cause, ns in zip(names(drawing, idle), drawing.dur_ns[idle].tolist(), strict=True):
        total[cause] = total.get(cause, 0) + ns
    assert total["host_sync"] == spec.steps * spec.gaps_ns["sync"]
    assert total["dependency"] == spec.steps * spec.gaps_ns["dependency"]
    assert total["host_region"] == spec.steps * spec.gaps_ns["region"]


def test_a_kernel_leads_to_its_launch_and_the_launch_to_its_operator_and_stack(drawing):
    kernel = next(e for e in of_group(drawing, "stream") if "gemm" in names(drawing, [e])[0])
    launch = int(drawing.partner[kernel])
    assert KINDS[drawing.kind[launch]] == "runtime"
    assert drawing.partner[launch] == kernel
    around, event = [], int(drawing.parent[launch])
    while event >= 0:
        around.append(KINDS[drawing.kind[event]])
        event = int(drawing.parent[event])
    assert around[0] == "operator"
    assert "python" in around


def test_a_host_sync_is_drawn_in_its_thread_and_again_among_the_syncs(drawing, spec):
    syncs = of_group(drawing, "syncs")
    assert len(syncs) == spec.steps
    twins = drawing.partner[syncs]
    assert (drawing.start_ns[twins] == drawing.start_ns[syncs]).all()


def test_a_cut_of_the_whole_holds_every_event(drawing):
    cutter = DrawingCutter(drawing)
    lanes = range(len(drawing.lane_first) - 1)
    for columns in (1, 10, 1_000, 1_000_000):
        cut = cutter.cut(lanes, *drawing.span, columns)
        assert cut.count.sum() == len(drawing)


def test_a_fine_cut_gives_single_events_with_their_names(drawing):
    cutter = DrawingCutter(drawing)
    lane = next(group.first for group in drawing.groups if group.kind == "stream")
    first = int(drawing.lane_first[lane])
    start = int(drawing.start_ns[first])
    cut = cutter.cut([lane], start, start + int(drawing.dur_ns[first]), 1000)
    assert cut.event.tolist() == [first]
    assert cut.name.tolist() == [drawing.name[first]]


def lane_of_short_events(count):
    host = make_table(
        HostEvents,
        start_ns=np.arange(count) * 10,
        dur_ns=np.full(count, 5),
        name=np.zeros(count),
        category=np.zeros(count),
        thread=np.zeros(count),
    )
    device, thread = make_table(DeviceEvents), Thread(1, 1, "main")
    timeline = Timeline(
        source="made", origin_ns=0, names=["op"], host=host, device=device, threads=[thread]
    )
    return make_drawing(timeline)


def test_a_coarse_cut_takes_neighbours_shorter_than_a_pixel_together():
    cut = DrawingCutter(lane_of_short_events(100)).cut([0], 0, 1000, 10)
    assert cut.count.tolist() == [10] * 10
    assert cut.start_ns.tolist() == list(range(0, 1000, 100))
    assert set(cut.name.tolist()) == {-1}


def test_a_cut_never_holds_more_blocks_than_can_be_drawn():
    cutter = DrawingCutter(lane_of_short_events(100_000))
    cut = cutter.cut([0], 0, 1_000_000, 1_000_000)
    assert len(cut.lane) <= 30_000
    assert cut.count.sum() == 100_000


def test_nothing_outside_the_range_is_cut(drawing):
    end = drawing.span[1]
    cut = DrawingCutter(drawing).cut(range(3), end + 10, end + 20, 100)
    assert len(cut.lane) == 0


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
    drawing = make_drawing(timeline)
    idle = of_group(drawing, "idle")
    (device,) = analyze_timeline(timeline).devices

    assert names(drawing, idle) == [gap.cause for gap in device.idle.longest] == ["host_region"]
