"""JAX's Chrome trace gives what the `xplane.pb` of the same events gives, as far as it goes."""

import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from lightning_gpuprof.errors import UnknownTraceError
from lightning_gpuprof.traces import ReadOptions, find_reader, open_timeline
from lightning_gpuprof.traces.jax import jax_json
from lightning_gpuprof.traces.jax.jax_xplane import SPACE
from lightning_gpuprof.traces.jax.messages import message_class

REAL = Path(__file__).parents[4] / "shared" / "traces" / "jax" / "xplane"


def rendered(path):
    """Return the events of an `xplane.pb` as JAX writes them into `trace.json.gz`."""
    space = message_class(SPACE)()
    space.ParseFromString(path.read_bytes())
    origin = min(line.timestamp_ns for p in space.planes for line in p.lines if line.events)
    names, events = [], []
    for pid, plane in enumerate(space.planes, start=1):
        names.append({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": text(plane)}})
        titles = {entry.key: entry.value for entry in plane.event_metadata}
        stats = {entry.key: text(entry.value) for entry in plane.stat_metadata}
        for line in plane.lines:
            where = {"pid": pid, "tid": line.id}
            args = {"name": (line.display_name or line.name).decode()}
            names.append({"ph": "M", **where, "name": "thread_name", "args": args})
            for event in line.events:
                title = titles[event.metadata_id]
                events.append(
                    {
                        "ph": "X",
                        **where,
                        "ts": (line.timestamp_ns - origin) / 1e3 + event.offset_ps / 1e6,
                        "dur": event.duration_ps / 1e6,
                        "name": (title.display_name or title.name).decode(),
                        "args": arguments(event, stats),
                    }
                )
    meta = {"displayTimeUnit": "ns", "metadata": {"highres-ticks": True}}
    return {**meta, "traceEvents": [*names, *events, {}]}


def text(named):
    return named.name.decode()


def arguments(event, stats):
    values = {}
    for stat in event.stats:
        for field, value in stat.ListFields():
            if field.name == "ref_value":
                value = stats.get(value, "")
            if field.name != "metadata_id":
                plain = value.decode() if isinstance(value, bytes) else value
                values[stats[stat.metadata_id]] = str(plain)  # JAX writes numbers as strings
    return values


@pytest.fixture
def as_json(tmp_path):
    def write(source, change=lambda trace: None):
        trace = rendered(source)
        change(trace)
        path = tmp_path / "trace.json.gz"
        path.write_bytes(gzip.compress(json.dumps(trace).encode()))
        return str(path)

    return write


def rows(timeline, table):
    columns = [timeline.names[i] for i in table.name], table.category, table.dur_ns
    start = table.start_ns - (table.start_ns[0] if len(table) else 0)
    return sorted(zip(*columns, start, table.correlation, strict=True))


def same(one, other):
    """Compare two timelines; times of the Chrome trace are rounded in microseconds."""
    for name in ("device", "host"):
        first, second = rows(one, getattr(one, name)), rows(other, getattr(other, name))
        assert [row[:2] for row in first] == [row[:2] for row in second]
        assert [row[4] for row in first] == [row[4] for row in second]
        times = np.array([row[2:4] for row in first]), np.array([row[2:4] for row in second])
        assert not len(first) or np.abs(times[0] - times[1]).max() <= 2


def test_the_chrome_trace_of_the_tiny_run_gives_what_its_planes_give(tiny_traces, as_json):
    source = tiny_traces / "jax.xplane.pb"
    path = as_json(source)
    timeline, planes = open_timeline(path), open_timeline(str(source))
    assert timeline.source == "jax-json"
    same(timeline, planes)
    assert timeline.device.stream.tolist() == planes.device.stream.tolist()
    assert timeline.device.num_bytes.tolist() == planes.device.num_bytes.tolist()
    assert "step#4" in timeline.names
    stacks = ReadOptions(stacks=True)
    same(open_timeline(path, stacks), open_timeline(str(source), stacks))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real files are not at hand")
@pytest.mark.parametrize("source", [*REAL.rglob("*.pb")], ids=lambda path: path.parent.name)
def test_the_chrome_trace_of_real_planes_gives_what_they_give(source, as_json):
    same(open_timeline(as_json(source)), open_timeline(str(source)))


def test_a_tpu_has_its_work_on_xla_ops_alone(tmp_path):
    def name(kind, tid, text):
        return {"ph": "M", "pid": 3, "tid": tid, "name": kind, "args": {"name": text}}

    events = [
        name("process_name", 0, "/device:TPU:1"),
        name("thread_name", 1, "XLA Modules"),
        name("thread_name", 2, "XLA Ops"),
        {"ph": "X", "pid": 3, "tid": 1, "ts": 1, "dur": 9, "name": "jit_step"},
        {"ph": "X", "pid": 3, "tid": 2, "ts": 2.5, "dur": 4, "name": "fusion.1"},
    ]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    timeline = open_timeline(str(path))
    assert [timeline.names[i] for i in timeline.device.name] == ["fusion.1"]
    assert (timeline.device.device[0], timeline.device.dur_ns[0]) == (1, 4_000)


def test_beside_its_planes_the_chrome_trace_is_not_read_and_the_error_says_which_file_is(
    tiny_traces, as_json, tmp_path
):
    path = as_json(tiny_traces / "jax.xplane.pb")
    shutil.copy(tiny_traces / "jax.xplane.pb", tmp_path / "host.xplane.pb")
    with pytest.raises(UnknownTraceError, match=r"give the xplane\.pb beside it"):
        find_reader(path)


def test_a_file_that_jax_cut_off_says_so(tiny_traces, as_json, monkeypatch):
    monkeypatch.setattr(jax_json, "JAX_EVENTS", 5)
    (warning,) = open_timeline(as_json(tiny_traces / "jax.xplane.pb")).warnings
    assert "later ones are missing" in warning


def test_no_more_events_are_read_than_a_file_of_jax_can_hold(tiny_traces, as_json, monkeypatch):
    monkeypatch.setattr(jax_json, "MOST_EVENTS", 12)
    timeline = open_timeline(as_json(tiny_traces / "jax.xplane.pb"))
    assert len(timeline.device) + len(timeline.host) <= 12
    assert any("more than 12 events" in warning for warning in timeline.warnings)


def test_damaged_events_are_left_out_and_the_rest_is_read(tiny_traces, as_json):
    def damage(trace):
        trace["traceEvents"][-3:-3] = [
            {"ph": "X", "pid": "three", "tid": [], "ts": 1, "dur": 1, "name": 5},
            {"ph": "X", "pid": 1, "tid": 1, "ts": 1, "dur": -5, "name": "before"},
            {"ph": "X", "pid": 2, "tid": 1, "ts": 1e300, "dur": 1, "name": "late"},
        ]

    source = tiny_traces / "jax.xplane.pb"
    timeline = open_timeline(as_json(source, damage))
    same(timeline, open_timeline(str(source)))
    assert any("could not be read" in warning for warning in timeline.warnings)
    assert any("left out" in warning for warning in timeline.warnings)
