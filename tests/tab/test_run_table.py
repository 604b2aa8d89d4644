"""The table of all runs: what it shows of each, and how it is filled."""

from document_parts import read_sections, table_in
from tab_client import ROUTE, make_client

from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.charts.run_table import run_table
from lightning_gpuprof.report.charts.run_views import RunLine, natural_key
from lightning_gpuprof.report.load import load_report


def rows_of(client):
    answer = client.get(f"{ROUTE}/run_table").json
    rows = table_in(read_sections(answer["sections"]), "runs").rows
    return {row["run"]: row for row in rows}, answer["pending"]


def test_each_run_has_the_figures_and_the_verdict_of_its_document(made_runs, tmp_path):
    folder = made_runs.gpu_run(tmp_path / "gpu")
    made_runs.newer_run(tmp_path / "newer")
    made_runs.bare_run(tmp_path / "bare")
    rows, pending = rows_of(make_client(tmp_path)[0])
    document = build_run(load_report(str(folder)))
    assert pending == 0
    assert rows["gpu"]["step_ns"] == document.figure("step_ns")
    assert rows["gpu"]["gpu_busy_frac"] == document.figure("gpu_busy_frac")
    assert rows["gpu"]["samples_per_s"] == document.figure("samples_per_s")
    assert rows["gpu"]["finding"] == document.verdict.title
    assert rows["newer"]["status"] == "newer version"
    assert rows["bare"]["finding"] == "No training step was recorded"


def test_a_run_is_read_once_until_its_files_change(made_runs, tmp_path, monkeypatch):
    folder = made_runs.gpu_run(tmp_path / "gpu")
    client, _ = make_client(tmp_path)
    first, _ = rows_of(client)
    monkeypatch.setattr("lightning_gpuprof.tab.summaries.LoadedRun", None)
    assert rows_of(client)[0] == first
    monkeypatch.undo()
    (record,) = (folder / "plugins" / "gpuprof").glob("rank0.jsonl")
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(lines[:-3]))
    assert rows_of(client)[0] != first


def test_a_request_reads_runs_for_a_moment_and_says_how_many_are_left(made_runs, tmp_path):
    for name in ("a", "b"):
        made_runs.killed_run(tmp_path / name)
    client, plugin = make_client(tmp_path)
    rows_of(client)
    answers = plugin._answers
    answers._summaries = type(answers._summaries)()
    ticks = iter([0.0, 0.1, 9.0])  # the end, then a look at the clock for each run
    answers._clock = lambda: next(ticks)
    rows, pending = rows_of(client)
    assert pending == 1
    assert [row["run"] for row in rows.values() if "step_ns" not in row] == ["b"]


def test_names_are_ordered_as_people_order_them():
    names = ["version_10", "version_2", "a/version_1", "version_9", "7"]
    assert sorted(names, key=natural_key) == [
        "7",
        "a/version_1",
        "version_2",
        "version_9",
        "version_10",
    ]


def test_a_run_that_cannot_be_read_says_why():
    line = RunLine("x", "/x", "unreadable", error="/x: Permission denied.")
    (row,) = run_table([line], lambda _: None).sections[0].body[0].rows
    assert row["note"] == "/x: Permission denied."
