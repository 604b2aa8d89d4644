import gzip
import json
import random

import pytest
from analyzed import timeline_names

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.kineto import event_stream
from lightning_gpuprof.traces.kineto.event_stream import PIECE_BYTES


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_a_file_cut_anywhere_gives_what_it_holds_and_says_so(tmp_path, op, suffix):
    events = [op(f"op{i}", ts=i * 20) for i in range(50)]
    whole = json.dumps({"schemaVersion": 1, "traceEvents": events}, indent=2).encode()
    for cut in (len(whole) // 3, len(whole) - 5, len(whole) - 40):
        path = tmp_path / f"cut{cut}{suffix}"
        if suffix == ".json":
            path.write_bytes(whole[:cut])
        else:
            packed = gzip.compress(whole, compresslevel=0)
            path.write_bytes(packed[: cut + 15])
        timeline = open_timeline(str(path))
        read = timeline_names(timeline, timeline.host)
        assert read == [f"op{i}" for i in range(len(read))]
        assert len(read) >= whole[:cut].count(b'"name": "op') - 1
        assert any("ends" in warning for warning in timeline.warnings)


def test_a_damaged_gzip_stream_gives_what_came_before(write_text, op):
    noise = random.Random(1)
    events = [op(f"op{noise.random()}", ts=i) for i in range(10_000)]
    packed = bytearray(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    middle = len(packed) * 3 // 4
    packed[middle : middle + 64] = bytes(64)
    path = write_text(bytes(packed))

    timeline = open_timeline(path)

    assert 0 < len(timeline.host) < 10_000
    assert timeline.warnings


def test_one_unreadable_event_costs_only_itself(write_text, op):
    good = json.dumps(op())
    after = '"deviceProperties": [{"id": 0, "name": "t"}]'
    text = f'{{"traceEvents": [{good}, {{"ph": "X", "cat": }}, {good}], {after}}}'

    timeline = open_timeline(write_text(text))

    assert len(timeline.host) == 2
    assert [one.name for one in timeline.devices] == ["t"]
    assert timeline.warnings == ("1 events could not be read and were skipped.",)


@pytest.mark.parametrize(
    "args",
    ['{"warps per SM": inf, "stream": 7}', '{"blocks per SM": nan}', '{"path": "C:\\dir\\x"}'],
)
def test_values_that_are_no_json_are_mended(write_text, args):
    text = (
        '{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, '
        f'"ts": 1, "dur": 2, "args": {args}}}]}}'
    )

    timeline = open_timeline(write_text(text))

    assert timeline_names(timeline, timeline.device) == ["k"]
    assert timeline.warnings == ()


def test_names_with_bad_utf8_or_raw_newlines_are_kept(write_text):
    event = (
        b'{"ph": "X", "cat": "cpu_op", "name": "a\nb\xff", "pid": 1, "tid": 1, "ts": 1, "dur": 2}'
    )

    timeline = open_timeline(write_text(b'{"traceEvents": [' + event + b"]}"))

    assert timeline_names(timeline, timeline.host) == ["a b\ufffd"]


@pytest.mark.parametrize("lost", [b'"', b"}", b"{"])
def test_an_event_that_seems_never_to_end_costs_little_more_than_itself(write_text, lost):
    count = 3 * PIECE_BYTES // 100
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": 2 * i, "dur": 1}
        for i in range(count)
    ]
    text = json.dumps({"traceEvents": events}).encode()
    at = text.index(lost, len(text) // 3)
    path = write_text(text[:at] + b" " + text[at + 1 :])

    timeline = open_timeline(path)

    assert count - 20 <= len(timeline.host) < count
    assert timeline.warnings or lost == b"{"  # without its beginning an event leaves no trace


EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "args": {}}'


@pytest.mark.parametrize(
    ("damaged", "whole"),
    [
        (EVENT.replace(b'"op"', b'op"'), 2_000),
        (EVENT.removesuffix(b"}}"), 1_001),  # with its end the border to the next event is lost
    ],
)
def test_a_file_with_many_damaged_events_is_gone_through_once(
    write_text, monkeypatch, damaged, whole
):
    walk, walked = event_stream.walk, []

    def counted(text, patience):
        walked.append(len(text))
        return walk(text, patience)

    monkeypatch.setattr(event_stream, "walk", counted)
    monkeypatch.setattr(event_stream, "PIECE_BYTES", 10_000)
    text = b'{"traceEvents": [' + b", ".join([EVENT, EVENT, damaged] * 1_000) + b"]}"
    path = write_text(text)

    timeline = open_timeline(path)

    assert len(timeline.host) == whole
    assert sum(walked) < 2 * len(text)
