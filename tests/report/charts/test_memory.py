import made_records
from document_parts import lines_in

from lightning_gpuprof.report.charts import memory
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.memory import PeakOfSize, memory_view
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.document import Verdict


def test_one_batch_size_is_advised_for_all_ranks_by_the_one_with_least_room(made_runs, tmp_path):
    run = LoadedRun(str(made_runs.two_rank_run(tmp_path)))
    for rank in ("0", "1"):
        text = " ".join(lines_in(memory_view(run, Query({"rank": rank})).sections))
        assert "104 instead of" in text
        assert "rank 1 of the 2 that measured their memory has the least room" in text


def test_a_run_of_one_rank_has_its_own_advice(made_runs, tmp_path):
    payload = memory_view(LoadedRun(str(made_runs.gpu_run(tmp_path))), Query({}))
    text = " ".join(lines_in(payload.sections))
    assert "120 instead of 32: 100 to 136 fill the target band." in text
    assert "rank" not in text
    (verdict,) = payload.sections[0].body
    assert isinstance(verdict, Verdict)
    assert verdict.sentence == "Batch size 120 fills it."
    assert (payload.curve.low, payload.curve.high) == (100, 136)


def test_on_a_cpu_there_is_no_memory_and_no_advice(made_runs, tmp_path):
    payload = memory_view(LoadedRun(str(made_runs.demo_run(tmp_path))), Query({}))
    assert (payload.points, payload.curve, payload.sections) == ((), None, ())
    assert payload.nothing.startswith("This run trained on a CPU: there is no device memory")


def test_many_windows_are_thinned_out_and_the_last_one_stays(write_run, make_session, monkeypatch):
    monkeypatch.setattr(memory, "MAX_POINTS", 2)
    records = [
        made_records.memory(7 + step, step=step, samples=8 if step == 0 else None)
        for step in range(5)
    ]
    run = LoadedRun(str(write_run([*make_session(steps=3), *records])))
    payload = memory_view(run, Query({}))
    assert [point.step for point in payload.points] == [1, 4]
    assert payload.sizes == (PeakOfSize(8, 7),)  # the others raised none
