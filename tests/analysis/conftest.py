import gzip
import json

import pytest


@pytest.fixture
def write_trace(tmp_path):
    """Write events as a Kineto file; returns its path."""

    def write(events, *, name="trace.json", bare=False, **header):
        document = events if bare else {**header, "traceEvents": events}
        text = json.dumps(document, indent=1)
        path = tmp_path / name
        data = text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return write


@pytest.fixture
def write_text(tmp_path):
    """Write text as it stands, gzipped where the name says so; returns its path."""

    def write(text, *, name="trace.json"):
        data = text if isinstance(text, bytes) else text.encode()
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return str(path)

    return write


@pytest.fixture
def op():
    """Make a host operator's event; times in us."""

    def make(name="aten::mm", ts=0, dur=10, *, pid=1, tid=1, cat="cpu_op", **args):
        event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur}
        return event | ({"args": args} if args else {})

    return make


@pytest.fixture
def launched():
    """Make a launching call and the kernel that it launched; times in us."""

    def make(
        correlation,
        call_ts,
        ts,
        dur,
        *,
        name="ampere_sgemm_128x64_nn",
        call="cudaLaunchKernel",
        cat="kernel",
        runtime="cuda_runtime",
        call_dur=1,
        device=0,
        stream=7,
        tid=1,
        **args,
    ):
        where = {"device": device, "stream": stream, "correlation": correlation}
        return [
            {
                "ph": "X",
                "cat": runtime,
                "name": call,
                "pid": 1,
                "tid": tid,
                "ts": call_ts,
                "dur": call_dur,
                "args": {"correlation": correlation},
            },
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": device,
                "tid": stream,
                "ts": ts,
                "dur": dur,
                "args": where | args,
            },
        ]

    return make
