import made_records

from lightning_gpuprof.report.charts import memory
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.memory import memory_view
from lightning_gpuprof.report.charts.query import Query


def test_one_batch_size_is_advised_for_all_ranks_by_the_one_with_least_room(made_runs, tmp_path):
    run = LoadedRun(str(made_runs.two_rank_run(tmp_path)))
    for rank in ("0", "1"):
        advice = memory_view(run, Query({"rank": rank}))["advice"]
        assert advice["suggested_batch_size"] == 104
        assert (advice["details"]["rank"], advice["details"]["ranks_advised"]) == (1, 2)


def test_a_run_of_one_rank_has_its_own_advice(made_runs, tmp_path):
    advice = memory_view(LoadedRun(str(made_runs.gpu_run(tmp_path))), Query({}))["advice"]
    assert advice["suggested_batch_size"] == 120
    assert "rank" not in advice["details"]


def test_on_a_cpu_there_is_no_memory_and_no_advice(made_runs, tmp_path):
    found = memory_view(LoadedRun(str(made_runs.demo_run(tmp_path))), Query({}))
    assert (found["points"], found["advice"]) == ([], None)


def test_many_windows_are_thinned_out_and_the_last_one_stays(write_run, make_session, monkeypatch):
    monkeypatch.setattr(memory, "MAX_POINTS", 2)
    records = [
        made_records.memory(7 + step, step=step, samples=8 if step == 0 else None)
        for step in range(5)
    ]
    run = LoadedRun(str(write_run([*make_session(steps=3), *records])))
    found = memory_view(run, Query({}))
    assert [point["step"] for point in found["points"]] == [1, 4]
    assert found["sizes"] == [{"samples": 8, "peak_allocated_bytes": 7}]  # the others raised none
