"""The traces of all ranks are compared by a process, and shown on the pages Overview and Ranks."""

import shutil
from pathlib import Path

import pytest
from document_parts import read_document, read_sections
from tab_client import ROUTE, make_client

from lightning_gpuprof.cli import main
from lightning_gpuprof.report.document import decode
from lightning_gpuprof.report.stored_job import write_job

GLOO = Path(__file__).parents[1] / "data" / "job" / "gloo-2"


@pytest.fixture
def folder(tmp_path):
    """Copy the traces of two ranks that were recorded over gloo."""
    return shutil.copytree(GLOO, tmp_path / "job")


@pytest.fixture
def get(folder, started):
    client, _ = make_client(folder.parent, start=started)
    return lambda path, **params: client.get(f"{ROUTE}/{path}", query_string=params).json


def test_a_folder_of_all_ranks_traces_says_what_analyze_says(get, folder, started, capsys):
    waiting = read_document(get("report", run="job"))
    assert waiting.verdict.title == "No trace is analysed yet"
    assert list(started) == [("job", str(folder))]
    before = get("runs")["runs"]
    write_job(str(folder))
    started["job", str(folder)].end(0)
    assert get("runs")["runs"] != before  # by which the page knows that it has to draw again
    assert main(["analyze", "--json", str(folder)]) == 0
    shown, said = read_document(get("report", run="job")), decode(capsys.readouterr().out)
    assert shown == said
    assert shown.verdict.title.startswith("Rank 1 comes last 4 times: the others wait ")


def test_the_page_of_ranks_has_collectives_as_rows(get, folder, started):
    assert get("ranks", run="job")["state"] == "preparing"
    write_job(str(folder))
    started["job", str(folder)].end(0)
    payload = get("ranks", run="job")
    assert (payload["state"], payload["nothing"], payload["lanes"]) == ("prepared", None, [])
    sections = {section.id: section for section in read_sections(payload["sections"])}
    (table,) = sections["traces_collectives"].body
    assert {row["collective"] for row in table.rows} == {"all_reduce", "barrier"}
    (ranks,) = sections["traces_ranks"].body
    assert [row["rank"] for row in ranks.rows] == [0, 1]


def test_a_comparison_that_fails_is_said_so(get, folder, started):
    get("ranks", run="job")
    started["job", str(folder)].end(1, "no space left")
    payload = get("ranks", run="job")
    assert (payload["state"], payload["error"]) == ("failed", "no space left")


def test_a_runs_own_traces_are_compared_beside_its_records(made_runs, tmp_path, started):
    run = made_runs.many_rank_run(tmp_path / "run", ranks=2, late=1)
    for trace in GLOO.iterdir():
        name = trace.name.replace(".pt", "-cycle0.pt")
        shutil.copy(trace, run / "plugins/gpuprof" / name)
    client, _ = make_client(tmp_path, start=started)

    def ranks():
        return client.get(f"{ROUTE}/ranks", query_string={"run": "run"}).json

    first = ranks()
    assert (first["state"], len(first["lanes"])) == ("preparing", 2)
    folder = str(run / "plugins/gpuprof")
    assert list(started) == [("job", folder)]
    write_job(folder)
    second = ranks()
    ids = [section["id"] for section in second["sections"]]
    assert (second["state"], ids[0]) == ("prepared", "ranks")
    assert "traces_collectives" in ids
    assert len(ids) == len(set(ids))
