"""Device events that cannot be: cut or left out, counted, said first, and in no finding."""

from pathlib import Path

import pytest
from analyzed import analyzed_values

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode
from lightning_gpuprof.traces import ReadOptions, find_reader, open_timeline

CASES = Path(__file__).parents[1] / "data" / "cases"
MS, US = 1_000_000, 1_000


def kernels(document):
    return (
        sum(row["count"] for row in document["kernels"]),
        sum(row["total_ns"] for row in document["kernels"]),
    )


def test_a_kernel_that_reaches_over_later_ones_ends_where_the_next_one_starts():
    found = analyzed_values(str(CASES / "10_overlong_kernels_rocm.json"))
    count, total_ns = kernels(found)
    # 60 kernels of 100 us; two may have taken the 150 us until the next one.
    assert (count, total_ns) == (60, 58 * 100 * US + 2 * 150 * US)
    assert found["gpu"]["span_ns"] == 12 * MS
    assert found["quality"]["impossible_durations"] == 2
    assert "2 of 60 kernels have impossible durations" in found["warnings"][0]
    assert found["findings"] == []


def test_kernels_at_time_zero_are_left_out_and_counted():
    found = analyzed_values(str(CASES / "11_kernels_at_zero.json"))
    assert found["gpu"]["span_ns"] == 12 * MS
    assert kernels(found)[0] == 45
    assert found["quality"]["impossible_starts"] == 15
    assert "15 of 60 kernels have impossible times" in found["warnings"][0]
    idle_ns = sum(row["total_ns"] for row in found["idle"])
    assert found["gpu"]["idle_ns"] == idle_ns == 12 * MS - found["gpu"]["busy_ns"]
    assert found["findings"] == []


def test_kernels_stamped_behind_the_last_step_are_counted_and_belong_to_no_step():
    found = analyzed_values(str(CASES / "16_burst_after_the_steps.json"))
    assert kernels(found) == (40, 8 * MS)
    assert found["quality"]["behind_all_steps"] == 40
    assert "All 40 kernels" in found["warnings"][0]
    assert found["launches"]["delay"]["max_ns"] > 5 * MS
    assert all(step["gpu"]["busy_ns"] == 0 for step in found["steps"])
    assert found["findings"] == []


def test_doubts_come_before_all_figures(capsys):
    assert main(["analyze", str(CASES / "10_overlong_kernels_rocm.json")]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "VERDICT GPU: not known 2 of 60 kernels have impossible durations" in text
    assert text.index("No finding rests on it.") < text.index("THE DEVICE'S TIME")


def test_tables_whose_names_end_in_a_version_are_read():
    found = analyzed_values(str(CASES / "19_nsys_versioned_tables.sqlite"))
    assert kernels(found) == (40, 8 * MS)
    assert sum(row["count"] for row in found["ranges"]) == 4


@pytest.mark.parametrize(
    "name",
    ["nsys.sqlite", "jax.xplane.pb", "rocpd.db", "run.rpd", "rocprof_v1.db",
     "rocprofv3_results.json.gz"],
)  # fmt: skip
def test_what_any_reader_gives_passes_the_gate(tiny_traces, monkeypatch, name):
    path = str(tiny_traces / name)
    reader = find_reader(path)
    timeline = reader.read(path, ReadOptions())
    timeline.device.dur_ns[0] = 5_000 * MS
    monkeypatch.setattr(reader, "read", lambda *_: timeline)
    found = open_timeline(path)
    assert faults(found) == (1, 0)
    assert found.device.dur_ns[0] == 70 * US


def test_a_table_of_a_device_that_is_not_known_is_named(write_database, capsys):
    columns = "start, end, deviceId, streamId"
    path = write_database(
        CUPTI_ACTIVITY_KIND_KERNEL_NEXT=(columns, [(1, 5, 0, 7), (6, 9, 0, 7)]),
        StringIds=("id, value", []),
        META_DATA_EXPORT=("name, value", [("x", "y")]),
    )
    assert main(["analyze", path]) == 0
    said = capsys.readouterr().out
    assert "No device events: host time only" not in said
    assert "CUPTI_ACTIVITY_KIND_KERNEL_NEXT is not known here: 2 events" in said


def faults(timeline):
    return timeline.cut_count, timeline.left_out_count


def test_a_kernel_that_started_long_after_later_launches_of_its_stream_is_left_out(
    write_trace, launched
):
    events = [launched(n, 100 * n, 100 * n + 5, 50) for n in range(1, 9)]
    events[2] = launched(3, 300, 90_000, 50)
    timeline = open_timeline(write_trace([one for pair in events for one in pair]))
    assert faults(timeline) == (0, 1)
    assert len(timeline.device) == 7


@pytest.mark.parametrize(
    "odd",
    [
        {"dur": 1_300},  # the next kernel was launched to start early, and waits inside
        {"ts": 299},  # clocks disagree
        {"stream": 20, "dur": 5_000},  # a stream of its own
    ],
)
def test_what_devices_do_is_left_alone(write_trace, launched, odd):
    events = []
    for n in range(1, 9):
        where = {"ts": 1000 * n + 5, "dur": 50} | (odd if n == 3 else {})
        events += launched(n, 1000 * n, where.pop("ts"), where.pop("dur"), **where)
    assert faults(open_timeline(write_trace(events))) == (0, 0)


def test_kernels_of_one_graph_may_overlap(write_trace, launched):
    nodes = [launched(1, 0, 10 + 100 * n, 9_000, call="cudaGraphLaunch") for n in range(5)]
    events = [nodes[0][0], *(kernel for _, kernel in nodes)]
    assert faults(open_timeline(write_trace(events))) == (0, 0)


def test_a_device_that_is_behind_is_believed(write_trace, op, launched):
    # It works on what came before the trace while two steps are marked.
    before = launched(9, 0, 50, 4_000)[1:]
    steps = [op(f"ProfilerStep#{n}", 100 * n, 100, cat="user_annotation") for n in (1, 2)]
    own = [*launched(1, 110, 4_050, 900), *launched(2, 210, 4_950, 900)]
    found = analyzed_values(write_trace([*before, *steps, *own]))
    assert found["quality"]["doubts"] == []
    assert (found["gpu"]["span_ns"], found["gpu"]["busy_ns"]) == (1_800 * US, 1_800 * US)


def test_real_traces_pass_as_they_are(shared_traces):
    paths = [*shared_traces.glob("kineto/**/*.json*"), *shared_traces.glob("nsys/*.sqlite")]
    paths += [*shared_traces.glob("jax/**/*.pb"), *shared_traces.glob("rocprof/**/*.db")]
    found = {}
    for path in paths:
        if "csvs" not in str(path) and "expected.json" not in path.name:
            found[str(path.relative_to(shared_traces))] = faults(open_timeline(str(path)))
    assert len(found) > 30
    assert {name: one for name, one in found.items() if any(one)} == {}


def test_the_document_is_plain(capsys):
    assert main(["analyze", "--json", str(CASES / "11_kernels_at_zero.json")]) == 0
    document = decode(capsys.readouterr().out)
    assert document.figure("device_events_count") == 60
    assert document.verdict.kind == "not_measured"
