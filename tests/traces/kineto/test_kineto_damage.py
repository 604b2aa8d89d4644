import json

import pytest

from lightning_gpuprof.traces import open_timeline
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
