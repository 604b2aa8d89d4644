import gzip
import json
import random
from dataclasses import fields

import numpy as np
import pytest
from analyzed import timeline_names
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.kineto import event_stream as pieces
from lightning_gpuprof.traces.timeline import CATEGORIES, MISSING, of_category


def categories(table):
    return [CATEGORIES[i] for i in table.category.tolist()]


def rows(timeline):
    """Everything a file says about its events, as comparable tuples."""
    found = []
    for table in (timeline.host, timeline.device):
        for i in range(len(table)):
            values = {f.name: int(getattr(table, f.name)[i]) for f in fields(table)}
            values["name"] = timeline.names[values["name"]]
            values["start_ns"] += timeline.origin_ns
            if "thread" in values:
                values["thread"] = timeline.threads[values["thread"]]
                index = values.pop("arguments")
                values["arguments"] = None if index < 0 else timeline.arguments[index]
            found.append(tuple(sorted(values.items(), key=lambda item: item[0])))
    return sorted(found, key=repr)


def test_events_become_columns_with_times_relative_to_the_first(write_trace, op, launched):
    path = write_trace([op(ts=100, dur=50), *launched(5, 110, 130, 7, bytes=64)])

    timeline = open_timeline(path)

    assert timeline.source == "kineto"
    assert timeline.origin_ns == 100_000
    assert timeline_names(timeline, timeline.host) == ["aten::mm", "cudaLaunchKernel"]
    assert timeline.host.start_ns.tolist() == [0, 10_000]
    assert timeline.host.dur_ns.tolist() == [50_000, 1_000]
    assert timeline.host.correlation.tolist() == [MISSING, 5]
    assert categories(timeline.device) == ["kernel"]
    assert timeline.device.start_ns.tolist() == [30_000]
    assert timeline.device.stream.tolist() == [7]
    assert timeline.device.num_bytes.tolist() == [64]
    assert timeline.warnings == ()


def test_a_bare_list_of_events_is_read_like_any_other_file(write_trace, op, launched):
    events = [op(), *launched(5, 1, 2, 3)]

    bare = open_timeline(write_trace(events, bare=True, name="a.json"))

    assert rows(bare) == rows(open_timeline(write_trace(events, name="b.json.gz")))
    assert bare.warnings == ()


def test_epoch_times_with_fractions_keep_every_nanosecond(write_text):
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": %s, "dur": %s}'
    rows = [event % ("1683564901548726.123", "0.001"), event % ("1683564901548727", "2.5")]

    timeline = open_timeline(write_text(f'{{"traceEvents": [{", ".join(rows)}]}}'))

    assert timeline.origin_ns == 1683564901548726123
    assert timeline.host.start_ns.tolist() == [0, 877]
    assert timeline.host.dur_ns.tolist() == [1, 2500]


def test_hexadecimal_strings_and_64_bit_ids_are_numbers(write_trace, launched):
    call, kernel = launched(2**63 + 5, 1, 2, 3)
    kernel["args"] |= {"stream": "0x1f", "device": "0x0", "bytes": "0x0"}

    timeline = open_timeline(write_trace([call, kernel]))

    assert timeline.device.stream.tolist() == [31]
    assert timeline.device.device.tolist() == [0]
    assert timeline.device.num_bytes.tolist() == [0]
    assert timeline.device.correlation.tolist() == timeline.host.correlation.tolist()


def test_recorded_shapes_are_decoded_only_when_asked_for(write_trace, op):
    args = {"Input Dims": [[2, 3], []], "Input type": ["float", "Scalar"]}
    path = write_trace([op(**args), op(ts=20, **args), op("aten::t", ts=40)])

    timeline = open_timeline(path)

    assert timeline.host.arguments.tolist() == [0, 0, MISSING]
    assert len(timeline.arguments) == 1
    assert timeline.arguments[0].dims == ([2, 3], [])
    assert timeline.arguments[0].dtypes == ("float", "Scalar")


def test_allocator_marks_are_read_only_where_asked_for(write_trace, op):
    args = {"Device Id": 0, "Device Type": 1, "Total Allocated": 4, "Total Reserved": 8}
    mark = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5, "args": args}
    path = write_trace([op(), mark])

    assert len(open_timeline(path).memory) == 0
    memory = open_timeline(path, ReadOptions(memory=True)).memory
    assert memory.device.tolist() == [0]
    assert memory.allocated_bytes.tolist() == [4]


def test_negative_and_missing_durations_count_as_nothing(write_trace, op):
    unfinished = op(ts=5)
    del unfinished["dur"]

    timeline = open_timeline(write_trace([op(dur=-4), unfinished]))

    assert timeline.host.dur_ns.tolist() == [0, 0]
    assert len(timeline.warnings) == 2


def test_nested_objects_that_look_like_borders_do_not_split_an_event(write_trace, op, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 200)
    tricky = {"list": [{"a": 1}, {"b": "}, {"}, {"c": [{}, {}]}], "text": '}, {"ph": "X"'}
    events = [op(f"op{i}", ts=i, **tricky) for i in range(40)]

    timeline = open_timeline(write_trace(events))

    assert timeline_names(timeline, timeline.host) == [f"op{i}" for i in range(40)]
    assert timeline.warnings == ()


def test_values_after_the_events_are_kept_even_if_they_hold_lists_of_objects(
    write_text, op, monkeypatch
):
    monkeypatch.setattr(pieces, "PIECE_BYTES", 150)
    tail = {"pg": [{"a": 1}, {"b": 2}], "deviceProperties": [{"id": 0, "name": "t"}]}
    text = f'{{"head": [{{}}, {{}}], "traceEvents": [{json.dumps(op())}], {json.dumps(tail)[1:]}'

    timeline = open_timeline(write_text(text))

    assert len(timeline.host) == 1
    assert [one.name for one in timeline.devices] == ["t"]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), piece=st.integers(60, 4000), shift=st.integers(0, 10**9))
def test_order_piece_size_and_time_base_change_nothing(tmp_path_factory, seed, piece, shift):
    chance = random.Random(seed)
    events = []
    for i in range(chance.randrange(1, 60)):
        cat = chance.choice(["cpu_op", "cuda_runtime", "kernel", "user_annotation"])
        times = {"ts": chance.randrange(10**6) / 8, "dur": chance.randrange(10**5) / 8}
        args = {"correlation": i, "stream": chance.randrange(3), "device": 0, "Input Dims": [[i]]}
        place = {"pid": 0, "tid": i % 3}
        events.append({"ph": "X", "cat": cat, "name": f"n{i % 7}", **place, **times, "args": args})
    moved = [event | {"ts": event["ts"] + shift} for event in events]
    chance.shuffle(moved)
    folder = tmp_path_factory.mktemp("permuted")
    plain, other = folder / "a.json", folder / "b.json"
    plain.write_text(json.dumps({"traceEvents": events}))
    other.write_text(json.dumps({"traceEvents": moved}, indent=chance.choice([None, 1, 4])))

    first = open_timeline(str(plain))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "PIECE_BYTES", piece)
        second = open_timeline(str(other))

    assert second.origin_ns - first.origin_ns == shift * 1000
    unshifted = [
        tuple((k, v - shift * 1000 if k == "start_ns" else v) for k, v in row)
        for row in rows(second)
    ]
    assert sorted(unshifted, key=repr) == rows(first)


def test_an_empty_list_of_events_is_a_trace_without_events(write_trace):
    timeline = open_timeline(write_trace([], schemaVersion=1))

    assert len(timeline.host) == len(timeline.device) == 0
    assert [text.split(":")[0] for text in timeline.warnings] == [
        "The file holds no events that an analysis could use"
    ]


def test_every_real_kineto_trace_is_read_whole(shared_traces):
    """Counts by category against the plain JSON parser."""
    mapped = {"Operator": "cpu_op", "Runtime": "cuda_runtime", "Kernel": "kernel",
              "Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}  # fmt: skip
    on_device = ("kernel", "gpu_memcpy", "gpu_memset")
    kept = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "overhead", *on_device)
    files = [p for p in (shared_traces / "kineto").rglob("*.json*") if p.stat().st_size < 600_000]
    assert len(files) > 25
    for path in files:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        expected = {}
        for event in document["traceEvents"]:
            category = mapped.get(event.get("cat"), event.get("cat"))
            if event["ph"] == "X" and category in kept:
                total = expected.setdefault(category, [0, 0.0])
                total[0] += 1
                total[1] += event.get("dur", 0)
        timeline = open_timeline(str(path))
        for category, (count, dur) in expected.items():
            table = timeline.device if category in on_device else timeline.host
            mask = of_category(table, category)
            assert int(mask.sum()) == count, (path.name, category)
            assert int(table.dur_ns[mask].sum()) == pytest.approx(dur * 1000, abs=count), path.name
        assert timeline.warnings == ()
        assert np.all(np.diff(timeline.host.start_ns) >= 0)


def test_the_mark_that_windows_puts_before_text_is_no_part_of_the_trace(tmp_path, op):
    path = tmp_path / "trace.json"
    for text in (json.dumps([op(ts=1, dur=2)]), json.dumps({"a": 1, "traceEvents": [op()]})):
        path.write_text(text, encoding="utf-8-sig")

        timeline = open_timeline(str(path))

        assert len(timeline.host) == 1
        assert timeline.warnings == ()


@pytest.mark.parametrize("first", [[], [{}]])
def test_a_list_is_known_whatever_the_order_of_its_first_events_keys(tmp_path, op, first):
    named = {"args": {"name": "python"}, "name": "process_name", "ph": "M", "pid": 1}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps([*first, named, dict(sorted(op().items()))]))

    assert len(open_timeline(str(path)).host) == 1


def test_driver_calls_of_intel_gpus_are_read(write_trace, op, launched):
    call, kernel = launched(5, 110, 130, 7)
    driver = {**call, "cat": "xpu_driver", "name": "zeCommandListAppendLaunchKernel"}

    timeline = open_timeline(write_trace([{**call, "cat": "xpu_runtime"}, driver, kernel]))

    assert categories(timeline.host) == ["cuda_runtime", "cuda_driver"]
