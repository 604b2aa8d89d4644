import json
from itertools import islice

import msgspec
import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.kineto import kineto_json
from lightning_gpuprof.traces.kineto.kineto_json import PIECE_BYTES


@pytest.mark.parametrize("lost", [b'"', b"}", b"{"])
def test_an_event_that_seems_never_to_end_costs_little_more_than_itself(tmp_path, lost):
    count = 3 * PIECE_BYTES // 100
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": 2 * i, "dur": 1}
        for i in range(count)
    ]
    text = json.dumps({"traceEvents": events}).encode()
    at = text.index(lost, len(text) // 3)
    path = tmp_path / "damaged.json"
    path.write_bytes(text[:at] + b" " + text[at + 1 :])

    timeline = open_timeline(str(path))

    assert count - 20 <= len(timeline.host) < count
    assert timeline.warnings or lost == b"{"  # without its beginning an event leaves no trace


def test_a_piece_in_which_no_event_ends_waits_for_the_next_block(monkeypatch):
    begun = b'{"ph": "X", "args": [1}'
    text = b", ".join([begun, EVENT, EVENT, EVENT])
    monkeypatch.setattr(kineto_json, "PIECE_BYTES", len(text))
    blocks = iter([b'{"traceEvents": [' + text, b", " + EVENT + b"]}"])
    decode = msgspec.json.decode
    stream = kineto_json.EventStream(blocks, decode, decode, warn=lambda said: None)
    lists = list(islice(stream, 100))
    assert sum(map(len, lists)) == 4


EVENT = b'{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 1, "args": {}}'


@pytest.mark.parametrize(
    ("damaged", "whole"),
    [
        (EVENT.replace(b'"op"', b'op"'), 2_000),
        (EVENT.removesuffix(b"}}"), 1_001),  # with its end the border to the next event is lost
    ],
)
def test_a_file_with_many_damaged_events_is_gone_through_once(
    tmp_path, monkeypatch, damaged, whole
):
    walk, walked = kineto_json.walk, []

    def counted(text, patience):
        walked.append(len(text))
        return walk(text, patience)

    monkeypatch.setattr(kineto_json, "walk", counted)
    monkeypatch.setattr(kineto_json, "PIECE_BYTES", 10_000)
    text = b'{"traceEvents": [' + b", ".join([EVENT, EVENT, damaged] * 1_000) + b"]}"
    path = tmp_path / "damaged.json"
    path.write_bytes(text)

    timeline = open_timeline(str(path))

    assert len(timeline.host) == whole
    assert sum(walked) < 2 * len(text)
