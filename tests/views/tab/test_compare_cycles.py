import pytest

from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, trace_name
from lightning_gpuprof.views.tab.compare_cycles import compare_cycles_view
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query, QueryError


@pytest.fixture
def run(made_runs, tmp_path):
    return LoadedRun(str(made_runs.two_cycle_run(tmp_path)))


def test_the_last_cycle_is_compared_with_the_first_per_step(run):
    found = compare_cycles_view(run, Query({}))
    assert (found["state"], found["per_step"]) == ("compared", True)
    assert (found["base"], found["trace"]) == (trace_name(0, 0, 0), trace_name(0, 0, 1))
    before, after = (
        sum(row[key] for row in found["kernels"]) for key in ("base_count", "test_count")
    )
    assert after == pytest.approx(2 * before, rel=0.1)
    assert found["base_step_ns"] > 0


def test_cycles_are_picked_by_their_trace(run):
    first = trace_name(0, 0, 0)
    found = compare_cycles_view(run, Query({"trace": first, "base": first}))
    assert {row["change"] for row in found["kernels"]} == {"same"}
    with pytest.raises(QueryError, match="no analysed trace"):
        compare_cycles_view(run, Query({"base": "../x"}))


def test_one_cycle_is_too_few(made_runs, tmp_path):
    cycle = made_runs.add_cycle(tmp_path)
    loaded = LoadedRun(str(made_runs.write_run(tmp_path, [made_runs.run_start(), cycle])))
    assert compare_cycles_view(loaded, Query({}))["state"] == "too-few"


def test_an_analysis_that_is_none_is_told(run, tmp_path):
    name = trace_name(0, 0, 0)
    path = tmp_path / "plugins/gpuprof" / (name + ANALYSIS_SUFFIX)
    path.write_text('{"kernels": [3]}')
    with pytest.raises(QueryError, match="cannot be compared"):
        compare_cycles_view(run, Query({}))
