import gzip
import json
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_gpuprof.aside import second_core
from lightning_gpuprof.traces import ReadOptions, open_timeline
from lightning_gpuprof.traces.kineto import kineto
from lightning_gpuprof.traces.kineto.kineto_halves import STRETCH_BLOCKS, every_other
from lightning_gpuprof.views.documents.trace_payload import analyze_file


def trace(events, before=(), after=()):
    document = {**dict(before), "traceEvents": events, **dict(after)}
    return json.dumps(document).encode()


def dealt_out(parts, half):
    found = every_other(iter(parts), half)
    return {number: json.loads(b"".join(stretch)) for number, stretch in found}


def blocks(text, size):
    return [text[start : start + size] for start in range(0, len(text), size)]


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(20, 400))
def test_every_event_is_in_one_half_and_each_half_is_a_trace(count, block_bytes):
    events = [{"ph": "X", "name": f"op {i}", "args": {"of": [{"a": i}]}} for i in range(count)]
    text = trace(events, before={"schemaVersion": 1}, after={"traceName": "x"})
    parts = blocks(text, block_bytes)

    stretches = dealt_out(parts, 0) | dealt_out(parts, 1)

    in_order = [stretches[number] for number in range(len(stretches))]
    assert [event for one in in_order for event in one["traceEvents"]] == events
    assert in_order[0]["schemaVersion"] == 1
    assert in_order[-1]["traceName"] == "x"


def test_a_long_trace_is_dealt_out_evenly():
    events = [{"ph": "X", "name": f"op {i}"} for i in range(1000)]
    parts = blocks(trace(events), 100)

    halves = [dealt_out(parts, half).values() for half in (0, 1)]

    most_in_a_stretch = 2 * STRETCH_BLOCKS * 100 // len(json.dumps(events[0]))
    first, second = (sum(len(one["traceEvents"]) for one in half) for half in halves)
    assert abs(first - second) <= most_in_a_stretch


@pytest.mark.parametrize("text", [b'[{"ph": "X"}, {"ph": "X"}]', trace([{"name": "a", "ph": "X"}])])
def test_what_is_not_written_as_kineto_writes_stays_whole(text):
    parts = blocks(text, 5)

    ((number, whole),) = ((n, b"".join(one)) for n, one in every_other(iter(parts), 0))

    assert (number, whole) == (0, text)
    assert not dealt_out(parts, 1)


@pytest.fixture
def always_shared(monkeypatch):
    if not second_core():
        pytest.skip("needs a second core and a system that can fork")
    monkeypatch.setattr(kineto, "_WORTH_SHARING", 0)
    monkeypatch.setattr("lightning_gpuprof.traces.kineto.blocks.BLOCK_BYTES", 1 << 12)
    return ReadOptions(second_core=True)


def events_of_a_step(count):
    rows = []
    for i in range(count):
        common = {"ph": "X", "pid": 1, "tid": 1 + i % 3, "ts": 10 * i, "dur": 5}
        shapes = {"Input Dims": [[i % 7, 4]], "Input type": ["float"]}
        rows.append({**common, "cat": "cpu_op", "name": f"aten::op{i % 11}", "args": shapes})
        launch = {"correlation": i}
        rows.append({**common, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "args": launch})
        on_device = {"device": 0, "stream": 7, "correlation": i}
        kernel = {**common, "cat": "kernel", "name": f"k{i % 5}", "ts": 10 * i + 6, "dur": 3}
        rows.append({**kernel, "args": on_device})
    return rows


def test_two_processes_read_what_one_reads(tmp_path, always_shared):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(trace(events_of_a_step(3000), after={"traceName": "x"})))

    assert analyze_file(str(path), always_shared) == analyze_file(str(path))


def test_a_damaged_trace_is_read_by_one_and_says_the_same(tmp_path, always_shared):
    path = tmp_path / "trace.json"
    text = trace(events_of_a_step(3000))
    path.write_bytes(text[: len(text) * 3 // 4])

    shared, alone = open_timeline(str(path), always_shared), open_timeline(str(path))

    assert shared.warnings == alone.warnings != ()
    assert len(shared.host) == len(alone.host)


def test_times_that_a_float_cannot_hold_are_exact_in_both_halves(tmp_path, always_shared):
    base = 1_683_564_901_548_726
    lines = [
        f'{{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": {base + i}.125, '
        f'"dur": 0.25}}'
        for i in range(3000)
    ]
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [' + ", ".join(lines) + "]}", encoding="utf-8")

    timeline = open_timeline(str(path), always_shared)

    assert timeline.origin_ns == base * 1000 + 125
    assert (timeline.host.start_ns == [1000 * i for i in range(3000)]).all()
    assert os.path.getsize(path) > 1 << 16
