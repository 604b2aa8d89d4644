"""A test for each class of input that once failed: by hand, or found by `make fuzz`."""

import gzip
import json
import os
import pickle
import sqlite3
import struct
import time
import tracemalloc
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made_records import make_session, run_end, run_start, write_run
from tab_client import ROUTE, make_client

from lightning_gpuprof import cli
from lightning_gpuprof.analysis.run.run import analyze_run
from lightning_gpuprof.analysis.trace_analysis import analyze_file
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.files import plugin_dir
from lightning_gpuprof.records.reader import parse_records, read_run
from lightning_gpuprof.report.stored_analysis import read_analysis
from lightning_gpuprof.traces import files, open_timeline
from lightning_gpuprof.traces.memory_snapshot import read_snapshot
from lightning_gpuprof.traces.tables import open_tables

LINE = b'{"phase":"forward","file":"","line":1,"function":"","source":"","callee":null,"kind":null,"count":0}'  # noqa: E501 - as in a file


def note(value):
    return b'{"kind":"note","step":1,"name":"n","value":%b}' % value


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (note(b'"\xff"'), "can't decode"),
        (note(b"[" * 5000 + b"]" * 5000), "nested deeper than 64"),
        (note(b"[" * 80 + b"]" * 80), "nested deeper than 64"),
        (note(b"1e308"), "value is beyond 1e+150"),
        (note(b"9223372036854775807"), "value is beyond 2^62"),
        (note(b'"%b"' % (b"a" * (1 << 21))), "longer than 1,048,576 characters"),
        (b'{"kind":"cycle","cycle":0,"first_step":-4,"last_step":1,"trace_file":"x"}', "below 0"),
        (b'{"kind":"host_lines","whole":0,"lines":[],"by_phase":{"forward":9}}', "do not add up"),
        (
            b'{"kind":"host_lines","whole":0,"lines":[%b],"by_phase":{}}'
            % b",".join([LINE] * 1001),
            "1,000",
        ),
        (b"\x00\x01", "JSON is malformed"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_the_rest_is_shown(tmp_path, line, why):
    write_run(tmp_path, [run_start(), run_end(0)])
    path = Path(plugin_dir(str(tmp_path)), "rank0.jsonl")
    begin, end = path.read_bytes().splitlines()

    found = parse_records(0, BytesIO(b"\n".join([begin, line, end, b""])), name=path.name)

    (warning,) = found.warnings
    assert warning.startswith("line 2 of rank0.jsonl cannot be read: ")
    assert why in warning
    assert found.sessions[0].end is not None


@pytest.mark.parametrize(
    ("column", "values", "why"),
    [
        ("dur_ns", 0, "took no time"),
        ("dur_ns", -5, "took no time"),
        ("start_ns", np.arange(50)[::-1], "began before its predecessor"),
        ("phase/forward", -1, "phase/forward is out of range"),
        ("step", -1, "step is out of range"),
        ("flags", 2**60, "flags is out of range"),
        ("start_ns", None, "start_ns does not hold a value"),
        ("epoch", [0], "epoch does not hold a value"),
    ],
)
def test_a_window_that_no_clock_gives_is_left_out_alone(tmp_path, column, values, why):
    records = make_session({"forward": 10}, steps=150)
    window = records[2]
    if values is None:
        del window.columns[column]
    else:
        filled = np.broadcast_to(values, (50,)) if np.ndim(values) == 0 else np.array(values)
        window.columns[column] = type(window.columns["step"]).pack(filled)
    run = write_run(tmp_path, records)

    found = read_run(str(run))[0]

    assert "line 3 of rank0.jsonl cannot be read: " in found.warnings[0]
    assert why in found.warnings[0]
    assert found.sessions[0].columns["step"].tolist() == [*range(50), *range(100, 150)]
    assert analyze_run({0: found}, {}).steps.count == 100


def test_step_numbers_of_a_long_run_take_no_memory_by_their_size(tmp_path):
    for rank in (0, 1):
        records = make_session({"forward": 10}, steps=60, rank=rank, world_size=2)
        for window in records[1:-1]:
            numbers = window.columns["step"].unpack() + 1_700_000_000
            window.columns["step"] = type(window.columns["step"]).pack(numbers)
        write_run(tmp_path, records, rank=rank)
    assert len(analyze_run(read_run(str(tmp_path)), {}).ranks.views) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"operators": {"rows": 3}},
        {"operators": [{"name": "x", "self_ns": -1, "total_ns": 5}]},
        {"kernels": [{"name": "x", "total_ns": 5}]},
        {"idle": [{"cause": "host_sync"}]},
        {"syncs": [{"name": "x", "kind": "device"}]},
        {"steps": [{"start_ns": None}]},
        {"gpu": {"busy_ns": "9"}},
        {"quality": {"doubts": 1}},
        {"occupancy": {"occupancy_frac": "9"}},
        {"sync_ns": 10**30},
    ],
)
def test_an_analysis_of_other_types_is_left_out_and_said(tmp_path, changes):
    (tmp_path / "t.analysis.json").write_text(json.dumps({"analysis_version": 1, **changes}))
    with pytest.raises(TraceError, match=r"t\.analysis\.json cannot be read"):
        read_analysis(str(tmp_path / "t"))


EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 9, "dur": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"ts": 1e308},
        {"dur": -1e308},
        {"dur": 2**62},
        {"ts": 10**400},
        {"pid": 1e308, "tid": float("1e300")},
        {"tid": "9" * 5000, "pid": "²"},
        {"args": {"correlation": 10**400, "stream": "9" * 5000}},
        {"args": {"Input Dims": [[1e308], [-1]], "Input type": ["float", "float"]}},
    ],
)
def test_an_event_of_odd_values_costs_at_most_itself(write_trace, changes):
    timeline = open_timeline(write_trace([EVENT, {**EVENT, **changes}, EVENT]))
    assert 2 <= len(timeline.host) <= 3
    assert (timeline.host.dur_ns < 2**53).all()


@pytest.mark.parametrize("nested", ['{"a":' * 5000 + "1" + "}" * 5000, "[" * 5000 + "]" * 5000])
def test_deep_nesting_in_a_trace_costs_its_event_alone(write_text, nested):
    odd = json.dumps(EVENT)[:-1] + f', "args": {{"Input Dims": {nested}}}}}'
    events = ", ".join([json.dumps(EVENT), odd, json.dumps(EVENT)])
    assert len(open_timeline(write_text(f'{{"traceEvents": [{events}]}}')).host) >= 2


def hostile_pickles():
    shared = {"frames": [{"filename": "a.py", "line": 1, "name": "f"}] * 300}
    event = {"action": "alloc", "addr": 1, "size": 8, **shared}
    put = b"\x80\x02}q\x00X\x08\x00\x00\x00segments]r%b" % struct.pack("<I", 2**31)
    yield put + b"s."
    yield b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"segments device_traces."
    yield b"\x80\x03B" + struct.pack("<I", 2**31 - 1) + b"segments device_traces."
    yield pickle.dumps({"segments": [], "device_traces": [[event] * 3000] * 100})
    yield pickle.dumps({"segments": [], "device_traces": [[]] * 5000})
    for odd in (7, [7], [[7]], {"a": 1}, "x", [{"total_size": "9", "blocks": []}], [{"blocks": 3}]):
        yield pickle.dumps({"segments": odd, "device_traces": []})
        yield pickle.dumps({"segments": [], "device_traces": odd})
    yield pickle.dumps({"segments": [{"total_size": 10**30, "blocks": []}], "device_traces": []})
    yield pickle.dumps({"segments": [], "device_traces": [[{"action": "\ud800"}]]})


@pytest.mark.parametrize("content", list(hostile_pickles()))
def test_a_pickle_of_another_shape_or_that_asks_for_too_much_is_refused(write_text, content):
    with pytest.raises(TraceError):
        read_snapshot(write_text(content))


def test_views_and_functions_of_a_database_are_bounded(tmp_path):
    for name, sql in {
        "rows": "SELECT a.* FROM kernel_rows a, kernel_rows b, kernel_rows c, kernel_rows d",
        "work": "SELECT a.* FROM kernel_rows a, kernel_rows b, kernel_rows c, kernel_rows d "
        "WHERE a.start + b.start + c.start + d.start < 0",
        "bytes": 'SELECT randomblob(999999999) AS "end", start FROM kernel_rows',
        "recursion": "WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT start FROM n) "
        'SELECT start, start AS "end" FROM n',
    }.items():
        path = tmp_path / name
        with sqlite3.connect(path) as made:
            made.execute('CREATE TABLE kernel_rows (start, "end", gpuId)')
            rows = [(i, i + 1, 0) for i in range(200)]
            made.executemany("INSERT INTO kernel_rows VALUES (?, ?, ?)", rows)
            made.execute(f"CREATE VIEW rocpd_op AS {sql}")
        made.close()
        timeline = open_timeline(str(path))
        assert len(timeline.device) < 10_000, name
        assert timeline.warnings, name


BEGINS = [
    b'"Kernel_Name","Start_Timestamp","End_Timestamp"\n',
    b'{"rocprofiler-sdk-tool": [',
    b"\n\x10/host:",
]
"""How files of kinds that are read as a whole begin: rocprof CSV, rocprofv3 JSON and xplane."""


@pytest.mark.parametrize("begin", [*BEGINS, b'{"highres-ticks":1,"traceEvents":['])
def test_a_file_that_unpacks_to_far_more_than_it_is_long_is_refused(tmp_path, begin):
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(begin + bytes(40_000_000)))
    with pytest.raises(TraceError, match="unpacks to more than 250 times its size"):
        open_timeline(str(path))


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("begin", BEGINS)
def test_a_file_that_is_too_large_is_refused_before_its_content_is_kept(
    tmp_path, monkeypatch, begin, packed
):
    monkeypatch.setattr(files, "MOST_BYTES", 64 << 20)
    monkeypatch.setattr(files, "MOST_CSV_BYTES", 64 << 20)
    path = tmp_path / "large"
    if packed:  # less than the most that a file may unpack to, relative to its size
        part = gzip.compress(os.urandom(1 << 13) + bytes(1 << 20))
        path.write_bytes(gzip.compress(begin) + part * 100)
    else:
        path.write_bytes(begin)
        os.truncate(path, 100 << 20)
    tracemalloc.start()
    with pytest.raises(TraceError, match="holds more than 64 MiB"):
        open_timeline(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 << 20


@pytest.mark.parametrize("begin", BEGINS[:2])
def test_of_text_that_is_no_trace_little_more_than_its_size_is_kept(tmp_path, begin):
    size = 24 << 20
    path = tmp_path / "large"
    path.write_bytes(begin + "☃🚀".encode() * (size // 7))
    tracemalloc.start()
    if begin is BEGINS[0]:
        assert not len(open_timeline(str(path)).device)
    else:
        with pytest.raises(TraceError, match="is damaged"):
            open_timeline(str(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < size * 1.5


@pytest.fixture
def logs(made_runs, tmp_path):
    made_runs.traced_run(tmp_path / "good")
    made_runs.traced_run(tmp_path / "bad")
    return tmp_path


@pytest.fixture
def get(logs):
    client, _ = make_client(logs)

    def ask(path, method="GET", **params):
        return client.open(f"{ROUTE}/{path}", method=method, query_string=params)

    return ask


def break_records(path):
    path.write_bytes(path.read_bytes().replace(b"CharTransformer", b"Char\xffTransformer"))


def as_fifo(path):
    path.unlink()
    os.mkfifo(path)


def as_link(path):
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize("damage", [break_records, as_fifo, as_link, Path.unlink])
def test_one_damaged_run_says_what_is_wrong_and_the_others_are_shown(logs, get, damage):
    damage(logs / "bad/plugins/gpuprof/rank0.jsonl")

    runs = {run["name"]: run for run in get("runs").json["runs"]}

    assert runs["good"]["state"] == "finished"
    assert get("report", run="good").status_code == 200
    if damage is not Path.unlink:
        assert runs["bad"]["state"] == "unreadable"
        assert "rank0.jsonl" in runs["bad"]["error"]
        answer = get("report", run="bad")
        assert answer.status_code in (400, 404)
        assert "rank0.jsonl" in answer.json["error"]


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("steps", {"first": "--5"}, 400),
        ("steps", {"first": "9" * 5000}, 400),
        ("timeline_cut", {"groups": "9" * 5000}, 400),
        ("timeline_cut", {"groups": "²"}, 400),
        ("report", {"run": "go\0od"}, 400),
        ("static/%00", {}, 400),
        ("trace", {"file": "rank0-cycle0.pt.trace.json.gz"}, 404),
    ],
)
def test_odd_requests_are_refused(logs, get, path, params, code):
    trace = logs / "good/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
    if path == "trace":
        as_link(trace)
    answer = get(path, **{"run": "good", **params})
    assert answer.status_code == code
    assert answer.json["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_routes_only_answer_reading(get, method):
    answer = get("runs", method=method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert get("runs", method="HEAD").status_code == 200


@pytest.mark.parametrize("name", ["fifo", "/dev/zero"])
def test_only_regular_files_are_read(tmp_path, capsys, name):
    path = tmp_path / name
    if name == "fifo":
        os.mkfifo(path)
    assert cli.main(["analyze", str(path)]) == 2
    assert "not a regular file" in capsys.readouterr().err


def test_what_nobody_foresaw_is_one_sentence_with_a_log(monkeypatch, capsys):
    def run(args):
        raise KeyError("x")

    command = SimpleNamespace(run=run, add_arguments=lambda parser: None)
    monkeypatch.setattr(cli, "load_command", lambda name: command)

    assert cli.main(["doctor"]) == 70

    (said,) = capsys.readouterr().err.splitlines()
    log = Path(said.partition("The traceback is in ")[2].partition(". Please")[0])
    assert "KeyError: 'x'" in said
    assert "Traceback (most recent call last)" in log.read_text()
    log.unlink()


def test_a_piece_of_many_broken_events_is_gone_through_in_time_of_its_length(write_text):
    text = '{"traceEvents": [' + '} , {"ph":' * 60_000
    began = time.process_time()
    assert len(open_timeline(write_text(text)).host) == 0
    assert time.process_time() - began < 3  # 13 s before


def test_of_a_trace_of_thousands_of_threads_the_critical_path_is_left_out(write_trace):
    analysis = analyze_file(write_trace([{**EVENT, "tid": i} for i in range(1_001)]))
    assert analysis.critical_path is None
    assert "more than 1,000 threads" in analysis.warnings[-1]


def test_a_column_that_comes_twice_takes_no_row_that_lacks_the_second(write_text):
    columns = "Kernel Name,Section Name,Metric Name,Metric Unit,Metric Value"
    row = '"0","gemm","Speed","time","ns","5"'
    path = write_text(f"ID,{columns},{columns}\n{row}\n", name="ncu.csv")
    assert open_tables(path).counters == ()
