"""Files of rocmProfileData in the schemas and layouts of its versions: made up."""

import json
import sqlite3

import pytest

from lightning_gpuprof.traces import open_timeline
from lightning_gpuprof.traces.timeline import CATEGORIES

PID, TID = 41, 42
STRINGS = ["", "gemm", "KernelExecution", "hipLaunchKernel", "aten::mm", "step", "hip", "torch"]
STRINGS += ["function", "user_scope", "hipMemcpyAsync", "CopyHostToDevice"]
ID = {text: number for number, text in enumerate(STRINGS, 1)}


@pytest.fixture
def third_schema(tmp_path):
    """Calls with a domain and a category, and arguments in a table of their own."""
    path = tmp_path / "run.rpd"
    calls = [
        (1, 1000, 9000, "step", "torch", "user_scope"),
        (2, 1500, 4000, "aten::mm", "torch", "function"),
        (3, 2000, 2100, "hipLaunchKernel", "hip", ""),
        (4, 5000, 5200, "hipMemcpyAsync", "hip", ""),
    ]
    with sqlite3.connect(path) as connection:
        run = connection.executemany
        connection.execute("CREATE TABLE rocpd_string (id integer, string varchar(4096))")
        connection.execute("CREATE TABLE rocpd_ustring (id integer, string varchar(4096))")
        connection.execute(
            "CREATE TABLE rocpd_op (id, gpuId, queueId, sequenceId, completionSignal, start, "
            '"end", description_id, opType_id)'
        )
        connection.execute(
            'CREATE TABLE rocpd_api (id, pid, tid, start, "end", apiName_id, args_id, domain_id, '
            "category_id)"
        )
        connection.execute("CREATE TABLE rocpd_api_ops (id, api_id, op_id)")
        connection.execute("CREATE TABLE rocpd_copyapi (api_ptr_id, stream, size)")
        run("INSERT INTO rocpd_string VALUES (?, ?)", list(enumerate(STRINGS, 1)))
        connection.execute("INSERT INTO rocpd_ustring VALUES (1, '{\"seq\": 3}')")
        run(
            "INSERT INTO rocpd_api VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)",
            [(n, PID, TID, s, e, ID[a], ID[d], ID[c]) for n, s, e, a, d, c in calls],
        )
        run(
            "INSERT INTO rocpd_op VALUES (?, 2, 7, 0, '', ?, ?, ?, ?)",
            [
                (1, 3000, 3800, ID["gemm"], ID["KernelExecution"]),
                (2, 5300, 6000, ID[""], ID["CopyHostToDevice"]),
            ],
        )
        run("INSERT INTO rocpd_api_ops VALUES (?, ?, ?)", [(1, 3, 1), (2, 4, 2)])
        connection.execute("INSERT INTO rocpd_copyapi VALUES (4, '0x0', 4096)")
    connection.close()
    return str(path)


def host(timeline):
    return {
        timeline.names[name]: CATEGORIES[category]
        for name, category in zip(timeline.host.name, timeline.host.category, strict=True)
    }


def test_the_third_schema_tells_operators_ranges_and_calls_apart(third_schema):
    timeline = open_timeline(third_schema)

    assert host(timeline) == {
        "step": "user_annotation",
        "aten::mm": "cpu_op",
        "hipLaunchKernel": "cuda_runtime",
        "hipMemcpyAsync": "cuda_runtime",
    }
    assert [timeline.names[i] for i in timeline.device.name] == ["gemm", "Memcpy HtoD"]
    assert timeline.device.correlation.tolist() == [3, 4]
    assert timeline.device.num_bytes.tolist() == [-1, 4096]


def span(pid, tid, name, begin, dur, args):
    place = {"pid": str(pid), "tid": str(tid), "name": name}
    return {**place, "ts": begin, "dur": dur, "ph": "X", "args": args}


def arrow(pid, tid, ts, number, phase):
    return {"pid": str(pid), "tid": str(tid), "cat": "api_op", "ts": ts, "id": number, "ph": phase}


# Kernels in a queue, a marker and a whole graph drawn above them, and two calls, the second of
# them shorter than the 2 us that its arrow begins before its end.
ROWS = [
    {},
    {"name": "process_name", "ph": "M", "pid": "2", "args": {"name": "GPU2"}},
    span(2, 7, "gemm", 20.5, 4.0, {"desc": "KernelExecution", "grid": [4, 1, 1]}),
    span(2, 7, "add", 30.25, 2.0, {"desc": "KernelExecution"}),
    span(2, 7, "Graph 0x5", 20.5, 11.75, {"kernels": "2"}),
    span(2, 7, "step", 19.5, 12.75, {"desc": "UserMarker frame: 2 ops"}),
    span(PID, TID, "hipLaunchKernel", 10.0, 5.0, {"desc": "stream=0"}),
    span(PID, TID, "hipLaunchKernel", 16.0, 0.5, {"desc": "stream=0"}),
    span(PID, TID, "aten::mm", 9.0, 8.0, {"desc": ""}),
    {"pid": str(PID), "tid": str(TID), "name": "note", "ts": 12.0, "ph": "i", "s": "p"},
    arrow(PID, TID, 13.0, 1, "s"),
    arrow(2, 7, 20.5, 1, "f"),
    arrow(PID, TID, 14.5, 2, "s"),
    arrow(2, 7, 30.25, 2, "f"),
    {"pid": "2", "name": "QueueDepth", "ph": "C", "ts": 10.0, "args": {"depth": 1}},
]


@pytest.mark.parametrize(("before", "after"), [("", ""), ('{"traceEvents": ', "}\n")])
def test_the_json_is_a_list_or_an_object(tmp_path, before, after):
    rows = "\n,".join(json.dumps(row, separators=(",", ":")) for row in ROWS)
    path = tmp_path / "run.json"
    path.write_text(f"{before}[ {rows}\n]\n{after}")

    timeline = open_timeline(str(path))

    assert timeline.source == "rpd"
    assert [timeline.names[i] for i in timeline.device.name] == ["gemm", "add"]
    assert timeline.device.dur_ns.tolist() == [4000, 2000]
    assert host(timeline) == {"hipLaunchKernel": "cuda_runtime", "aten::mm": "cpu_op"}
    calls = dict(
        zip(timeline.host.correlation.tolist(), timeline.host.dur_ns.tolist(), strict=True)
    )
    assert [calls[c] for c in timeline.device.correlation.tolist()] == [5000, 500]
