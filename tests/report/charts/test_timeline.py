import json
import struct

import numpy as np
import pytest

from lightning_gpuprof.report.charts import layout_file
from lightning_gpuprof.report.charts.layout_file import LayoutFileError, pack, unpack
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query, QueryError
from lightning_gpuprof.report.charts.timeline import (
    call_tree_view,
    timeline_cut_view,
    timeline_event_view,
    timeline_search_view,
    timeline_view,
)


@pytest.fixture(scope="module")
def run(made_runs, tmp_path_factory):
    return LoadedRun(str(made_runs.traced_run(tmp_path_factory.mktemp("traced"))))


@pytest.fixture(scope="module")
def loaded(run):
    """The run's one layout."""
    timeline_view(run, Query({}))
    (layout,) = run.layouts.values()
    return layout


def read_cut(content):
    length = struct.unpack("<I", content[:4])[0]
    head = json.loads(content[4 : 4 + length])
    at, columns = 4 + length, {}
    kinds = {"start": "f8", "dur": "f4", "count": "i4", "event": "i4", "name": "i4"}
    kinds |= {"kind": "u1", "found": "u1"}
    for name, kind in kinds.items():
        columns[name] = np.frombuffer(content, "<" + kind, head["blocks"], at)
        at += columns[name].nbytes
    assert at == len(content)
    return head, columns


def test_a_prepared_cycle_tells_its_lanes(run):
    payload = timeline_view(run, Query({}))
    assert payload.state == "prepared"
    kinds = [group.kind for group in payload.groups]
    assert {"annotations", "idle", "stream", "syncs", "thread", "python"} == set(kinds)
    assert sum(group.events for group in payload.groups) == payload.events


def test_a_layout_comes_back_from_its_file_as_it_was(loaded):
    again, texts, tree = unpack(pack(loaded.layout, ["float[2]"], loaded.tree))
    assert tree.host_ns.tolist() == loaded.tree.host_ns.tolist()
    assert texts == ("float[2]",)
    assert again.groups == loaded.layout.groups
    for column in ("start_ns", "dur_ns", "name", "parent", "partner", "lane_first"):
        assert (getattr(again, column) == getattr(loaded.layout, column)).all()


@pytest.mark.parametrize("cut", [0, 10, 200, -50])
def test_a_torn_file_is_no_layout(loaded, cut):
    content = pack(loaded.layout, [], loaded.tree)
    with pytest.raises(LayoutFileError):
        unpack(content[:cut])


def test_a_file_of_another_layout_is_told_apart(loaded, monkeypatch):
    content = pack(loaded.layout, [], loaded.tree)
    monkeypatch.setattr(layout_file, "LAYOUT", 99)
    with pytest.raises(LayoutFileError, match="another version"):
        unpack(content)


def test_a_cut_is_columns_behind_a_head(run):
    span = timeline_view(run, Query({})).span_ns
    head, columns = read_cut(timeline_cut_view(run, Query({"columns": "3000"})))
    assert (head["from"], head["to"]) == tuple(span)
    assert sum(head["counts"]) == head["blocks"]
    named = {str(name) for name in columns["name"].tolist() if name >= 0}
    assert named == set(head["names"])


def test_the_call_tree_sums_up_host_and_device_time(run, loaded):
    calls = call_tree_view(run, Query({}))
    top = [i for i, parent in enumerate(calls.parent) if parent < 0]
    streams = [group for group in timeline_view(run, Query({})).groups if group.kind == "stream"]
    assert streams
    lanes = [slice(*loaded.layout.lane_first[group.first :][:2]) for group in streams]
    kernels = np.concatenate([np.r_[lane] for lane in lanes])
    assert (loaded.layout.partner[kernels] >= 0).all()
    busy = int(loaded.layout.dur_ns[kernels].sum())
    assert sum(calls.device_ns[i] for i in top) == busy
    assert all(parent < i for i, parent in enumerate(calls.parent))
    assert calls.count[calls.name.index("ProfilerStep#0")] == 3


def test_memory_is_of_the_operator_that_was_innermost_when_it_was_allocated(made_runs, tmp_path):
    at = {"pid": 1, "tid": 1}
    spans = [("aten::linear", 0, 100), ("aten::mm", 10, 50), ("aten::add", 200, 50)]
    ops = [{**at, "ph": "X", "cat": "cpu_op", "name": n, "ts": ts, "dur": d} for n, ts, d in spans]
    mark = {**at, "ph": "i", "cat": "cpu_instant_event", "name": "[memory]"}
    device = {"Device Type": 1, "Device Id": 0, "Bytes": 1}
    totals = [(5, 100), (20, 160), (70, 200), (150, 900), (210, 800), (220, 1000)]
    marks = [{**mark, "ts": ts, "args": {**device, "Total Allocated": n}} for ts, n in totals]
    source = tmp_path / "source.json"
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": ops + marks}))
    run = LoadedRun(str(made_runs.traced_run(tmp_path / "run", source)))
    timeline_view(run, Query({}))
    (layout,) = run.layouts.values()
    # The first mark says what was there; the mark at 150 lies in no operator.
    assert layout.operator_bytes() == {"aten::mm": 60, "aten::linear": 40, "aten::add": 200}


def test_only_the_asked_groups_are_cut(run):
    groups = timeline_view(run, Query({})).groups
    number = next(i for i, group in enumerate(groups) if group.kind == "stream")
    head, _ = read_cut(timeline_cut_view(run, Query({"groups": str(number)})))
    assert head["lanes"] == [groups[number].first]


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"groups": "99"}, "pass numbers below"),
        ({"groups": "0,x"}, "pass numbers below"),
        ({"columns": "0"}, "out of range"),
        ({"from": "5", "to": "4"}, "out of range"),
        ({"trace": "../rank0.jsonl"}, "no trace file"),
    ],
)
def test_a_bad_parameter_is_named(run, params, says):
    with pytest.raises(QueryError, match=says):
        timeline_cut_view(run, Query(params))


def test_an_event_tells_its_launch_shapes_and_callers(run):
    hits = timeline_search_view(run, Query({"text": "s16816gemm"}))
    detail = timeline_event_view(run, Query({"event": str(hits.table.rows[0]["event"])}))
    assert detail.kind == "kernel_gemm"
    assert detail.partner.kind == "runtime"
    assert detail.arguments
    kinds = [event.kind for event in detail.around]
    assert kinds[0] == "operator"
    assert "python" in kinds


def test_a_search_counts_all_and_lists_the_longest(run):
    hits = timeline_search_view(run, Query({"text": "CUDASTREAMSYNC"}))
    assert hits.count == 3
    assert hits.total_ns == sum(row["dur_ns"] for row in hits.table.rows)
    assert {row["label"] for row in hits.table.rows} <= {"Host sync", "Runtime call"}


def test_a_search_is_seen_also_where_its_hits_share_a_block_with_others(run):
    hits = timeline_search_view(run, Query({"text": "CUDASTREAMSYNC"}))
    head, columns = read_cut(timeline_cut_view(run, Query({"columns": "1", "text": "streamSync"})))
    shared = columns["count"] > 1
    assert shared.any()
    assert 0 < columns["found"].sum() < head["blocks"]
    for event in hits.table.rows:
        lanes = np.repeat(head["lanes"], head["counts"])
        inside = (columns["start"] <= event["start_ns"]) & (lanes == event["lane"])
        assert columns["found"][np.flatnonzero(inside)[-1]] == 1


def test_without_a_search_no_block_is_told_apart(run):
    _, columns = read_cut(timeline_cut_view(run, Query({"columns": "100"})))
    assert columns["found"].all()


def test_a_search_for_nothing_is_refused(run):
    with pytest.raises(QueryError, match="nothing to search for"):
        timeline_search_view(run, Query({}))


def test_a_cycle_that_is_not_prepared_says_so(made_runs, tmp_path):
    run = LoadedRun(str(made_runs.traced_run(tmp_path, prepared=False)))
    assert timeline_view(run, Query({})).state == "not-prepared"
    assert call_tree_view(run, Query({})).state == "not-prepared"
    with pytest.raises(QueryError, match="prepared"):
        timeline_cut_view(run, Query({}))


def test_a_run_with_timers_only_has_no_timeline(made_runs, tmp_path):
    run = LoadedRun(str(made_runs.killed_run(tmp_path)))
    for view in (timeline_view, call_tree_view):
        payload = view(run, Query({}))
        assert (payload.trace, payload.state) == (None, "no-cycle")
