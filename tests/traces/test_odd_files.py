"""Files whose structure is sound and whose values are not: other tools, damage, old versions."""

import copy
import json

import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import of_category

SHAPES = {"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}


@pytest.fixture
def events(op, launched):
    """An operator and two kernels that it launched."""
    first, second = launched(1, 1, 5, 10), launched(2, 6, 20.125, 5)
    return [op("aten::mm", 0.5, 9.25, **SHAPES), *first, *second]


@pytest.fixture
def read(write_trace):
    return lambda events: open_timeline(write_trace(events, schemaVersion=1))


def rows(timeline):
    device, host = timeline.device, timeline.host
    columns = "start_ns", "dur_ns", "correlation"
    return [
        sorted(zip(*(getattr(table, name).tolist() for name in columns), strict=True))
        for table in (device, host)
    ]


def test_numbers_written_as_text_are_numbers_also_beside_shapes(read, events):
    as_text = copy.deepcopy(events)
    for event in as_text:
        event["ts"], event["dur"] = str(event["ts"]), str(event["dur"])
        for key, value in event["args"].items():
            event["args"][key] = str(value) if isinstance(value, int) else value

    timeline = read(as_text)

    assert rows(timeline) == rows(read(events))
    assert len(timeline.arguments) == len(read(events).arguments)
    assert not timeline.warnings


@pytest.mark.parametrize("moment", [9e18, -9e18, 2**63, 2**70, 10**30])
def test_a_time_that_no_clock_can_show_costs_its_event_alone(read, events, launched, moment):
    call, kernel = launched(3, 30, 31, 1)
    timeline = read([*events, {**call, "ts": moment}, {**kernel, "dur": moment}])

    assert rows(timeline) == rows(read(events))
    assert any("2 events could not be read" in text for text in timeline.warnings)


def test_ids_beyond_64_bits_and_of_other_types_cost_no_kernel(read, events, launched):
    odd = [launched(x, 0, 30 + i, 1)[1] for i, x in enumerate([2**70, "0x0", None, 1.5, "x"])]

    timeline = read([*events, *odd])

    assert len(timeline.device) == 7
    assert timeline.device.correlation.tolist()[:2] == [1, 2]
    assert not timeline.warnings


def test_what_is_no_event_is_passed_over(read, events):
    timeline = read([None, 1, "x", [], {}, [{}], True, *events])

    assert rows(timeline) == rows(read(events))


def test_text_and_gaps_in_a_database_s_number_columns_cost_their_rows_alone(write_database):
    path = write_database(
        rocpd_op=(
            'id, start, "end", gpuId, queueId, description_id, opType_id',
            [
                (1, 10, 30, 1, 7, 1, 2),
                (2, "40", "50", "1", "7", 1, 2),
                (3, 60, None, 1, 7, 1, 2),
                (4, 90, 80, 1, 7, 1, 2),
            ],
        ),
        rocpd_string=("id, string", [(1, None), (2, "KernelExecution")]),
    )

    timeline = open_timeline(path)

    assert timeline.device.dur_ns.tolist() == [20, 10]
    assert timeline.device.device.tolist() == [1, 1]
    assert of_category(timeline.device, "kernel").all()
    assert "2 events have no end" in timeline.warnings[0]


@pytest.mark.parametrize("odd", [f"{'a' * 200_000},40,50\nadd,60,65", "add,60,65\nmul,7"])
def test_a_row_that_is_no_csv_or_cut_costs_itself_alone(write_text, odd):
    header = "Kernel_Name,Start_Timestamp,End_Timestamp"

    timeline = open_timeline(write_text(f"{header}\ngemm,10,30\n{odd}"))

    assert timeline.device.dur_ns.tolist() == [20, 5]
    assert "1 CSV rows" in timeline.warnings[0]


def test_bytes_that_are_no_text_keep_no_json_away(write_text):
    dispatch = {
        "start_timestamp": 10,
        "end_timestamp": 30,
        "dispatch_info": {"agent_id": {"handle": 1}, "queue_id": {"handle": 2}, "kernel_id": 3},
    }
    symbols = [{"kernel_id": 3, "kernel_name": "ge_m"}]
    tool = {"kernel_symbols": symbols, "buffer_records": {"kernel_dispatch": [dispatch]}}
    text = json.dumps({"rocprofiler-sdk-tool": [tool]}).encode()

    timeline = open_timeline(write_text(text.replace(b"ge_m", b"ge\xffm")))

    assert [timeline.names[i] for i in timeline.device.name] == ["ge\ufffdm"]
