import gzip
import json
from dataclasses import fields

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lightning_gpuprof.traces import ReadOptions
from lightning_gpuprof.traces.kineto import event_stream, kineto
from lightning_gpuprof.traces.kineto.event_stream import only_python_calls

PYTHON = "python_function"
NAMES = (
    "train.py(1): main",
    'a"b',
    "}, {",
    '"cat": "python_function"',
    '}, {"ph": "X", "cat": "python_function"',
    "{[",
    "\\",
    '\\"ph\\"',
    "naïve é 漢",
)
WRITERS = {
    "kineto": {},
    "compact": {"separators": (",", ":")},
    "indented": {"indent": 2},
    "sorted": {"sort_keys": True},
}


def event(kind, name, number):
    """Return one event as Kineto has it; its type and category come first."""
    row = {"ph": "X", "cat": kind, "name": name, "pid": 1, "tid": 1, "ts": number, "dur": 2}
    if kind == PYTHON:
        row["args"] = {"Python id": number, "Python parent id": None}
    elif kind == "kernel":
        row["args"] = {"correlation": number, "stream": 7, "device": 0, "name": name}
    elif kind == "cuda_runtime":
        row["args"] = {"correlation": number}
    elif kind is None:
        del row["cat"]
        row |= {"ph": "M", "name": "thread_name", "args": {"name": PYTHON}}
    return row


kinds = st.sampled_from([PYTHON, PYTHON, PYTHON, "kernel", "cpu_op", "cuda_runtime", None])
runs = st.lists(st.tuples(kinds, st.sampled_from(NAMES), st.integers(1, 12)), max_size=8)


@pytest.fixture
def skipped(monkeypatch):
    """Read in small pieces, and tell how many were left out."""
    found = []

    def told(text, begin, end):
        found.append(only_python_calls(text, begin, end))
        return found[-1]

    monkeypatch.setattr(event_stream, "PIECE_BYTES", 400)
    monkeypatch.setattr(event_stream, "_WINDOWS", (100, 400))
    monkeypatch.setattr(kineto, "only_python_calls", told)
    return found


def read(path, events, *, stacks=False, head=None, writer="kineto"):
    document = {"schemaVersion": 1, **(head or {}), "traceEvents": events, "traceName": "t"}
    path.write_bytes(gzip.compress(json.dumps(document, **WRITERS[writer]).encode()))
    return kineto.read(str(path), ReadOptions(stacks=stacks))


def assert_same(one, other):
    assert (one.origin_ns, one.warnings) == (other.origin_ns, other.warnings)
    assert one.metadata == other.metadata
    for table in ("host", "device"):
        for field in fields(getattr(one, table)):
            assert column(one, table, field.name) == column(other, table, field.name)


def column(timeline, table, name):
    """Return a column's values; which index a name has depends on how the text was cut."""
    values = getattr(getattr(timeline, table), name).tolist()
    texts = {"name": timeline.names, "thread": timeline.threads}.get(name)
    return [texts[value] for value in values] if texts else values


@pytest.mark.parametrize("writer", WRITERS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(groups=runs)
def test_a_trace_reads_as_if_python_calls_had_never_been_written(tmp_path, skipped, writer, groups):
    events = []
    for kind, name, count in groups:
        events += [event(kind, name, len(events) + i) for i in range(count)]
    for one in events[::3]:
        one["of"] = [{"a": {}}, {"b": []}]  # looks like a border
    rest = [one for one in events if one.get("cat") != PYTHON]

    found = read(tmp_path / "all.json.gz", events, writer=writer)

    assert_same(found, read(tmp_path / "rest.json.gz", rest, writer=writer))


@pytest.mark.parametrize("writer", ["kineto", "compact", "indented"])
@pytest.mark.parametrize("name", [name for name in NAMES if "}, {" not in name])
def test_a_row_of_python_calls_is_left_out_whatever_their_names(tmp_path, skipped, writer, name):
    calls = [event(PYTHON, name, number) for number in range(100)]
    kernel = event("kernel", name, 5)

    found = read(tmp_path / "t.json.gz", [kernel, *calls, kernel], writer=writer)

    assert sum(skipped) > 10
    assert found.device.start_ns.tolist() == [0, 0]
    assert not len(found.host)


def test_python_calls_are_read_where_stacks_are_asked_for(tmp_path, skipped):
    calls = [event(PYTHON, "f", number) for number in range(100)]

    found = read(tmp_path / "t.json.gz", calls, stacks=True)

    assert len(found.host) == 100
    assert not skipped
