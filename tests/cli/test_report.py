import json
import os
import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from synthetic import SyntheticSpec, write_synthetic

from lightning_gpuprof import tab
from lightning_gpuprof.cli import main
from lightning_gpuprof.records.schema import SCHEMA_VERSION
from lightning_gpuprof.report.charts.loaded_run import LoadedRun
from lightning_gpuprof.report.charts.query import Query
from lightning_gpuprof.report.charts.registry import NEEDS_MORE, PAGES, VIEWS, find_view
from lightning_gpuprof.report.document import decode

MS = 1_000_000


@pytest.mark.parametrize("name", sorted(set(VIEWS) - set(NEEDS_MORE)))
def test_the_data_of_each_view_is_printed_as_its_route_answers_it(
    make_session, write_run, capsys, name
):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run, "--view", name]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(msgspec.json.encode(find_view(name)(LoadedRun(run), Query({}))))


@pytest.mark.parametrize("form", [["--json"], ["--view", "overview"]])
def test_json_is_the_document_alone_and_so_is_a_page_without_a_route_of_its_name(
    make_session, write_run, capsys, form
):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run, *form]) == 0
    printed = capsys.readouterr().out
    assert decode(printed).figure("steps_count") == 10


def test_every_page_of_the_tab_can_be_asked_for():
    pages = Path(tab.__file__).parent / "static" / "views"
    labels = [re.search(r'id: "(\w+)"', page.read_text()) for page in sorted(pages.glob("*.js"))]
    ids = {found[1] for found in labels if found}
    assert {"overview", "ranks", "compare"} <= ids
    assert ids <= {*VIEWS, *PAGES, "compare", "runs"}


def test_a_session_can_be_chosen(make_session, write_run, capsys):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    run = write_run(two)
    main(["report", run, "--session", "0", "--json"])
    assert decode(capsys.readouterr().out).figure("median_ns") == MS
    assert main(["report", run, "--session", "5"]) == 2
    assert "There is no session 5" in capsys.readouterr().err


def test_the_html_is_about_the_chosen_session(make_session, write_run, tmp_path, capsys):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    page = tmp_path / "report.html"
    assert main(["report", write_run(two), "--html", str(page), "--session", "0"]) == 0
    assert "median 1.00 ms" in page.read_text()


@pytest.mark.parametrize("options", [[], *(["--view", v] for v in set(VIEWS) - set(NEEDS_MORE))])
def test_a_missing_run_is_a_message_and_status_2(tmp_path, capsys, options):
    assert main(["report", str(tmp_path / "nowhere"), *options]) == 2
    assert "nowhere does not exist. Pass" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["report"], ["report", "--view", "steps"], ["compare"]])
def test_a_run_that_only_a_newer_version_can_read_says_so(make_session, write_run, capsys, command):
    good = write_run(make_session({"forward": 5 * MS}, steps=10), name="good")
    start, *rest = make_session({"forward": 5 * MS}, steps=10)
    newer = write_run([replace(start, schema_version=SCHEMA_VERSION + 1), *rest], name="run9")
    assert main([*command, *[good] * (command == ["compare"]), newer]) == 2
    said = capsys.readouterr().err
    assert "run9" in said
    assert f"written with record schema {SCHEMA_VERSION + 1}" in said
    assert "Upgrade lightning-gpuprof to see it." in said


def test_a_folder_that_may_not_be_looked_into_is_not_said_to_hold_nothing(
    tmp_path, monkeypatch, capsys
):
    def closed(path):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("os.listdir", closed)
    assert main(["report", str(tmp_path)]) == 2
    assert f"{tmp_path}: Permission denied" in capsys.readouterr().err


def test_a_folder_of_traces_leads_to_analyze(tmp_path, capsys):
    for number, name in enumerate(("old", "new")):
        trace = tmp_path / name / "host.pt.trace.json"
        trace.parent.mkdir()
        write_synthetic(trace, SyntheticSpec(steps=3))
        os.utime(trace, (number, number))
    for folder in (tmp_path, trace.parent):
        assert main(["report", str(folder)]) == 2
        assert f"lightning-gpuprof analyze {trace}" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "old"), str(trace.parent)]) == 0
    assert "two trace files" in capsys.readouterr().out


def test_a_file_of_lines_that_are_no_runs_is_not_taken_for_the_runs_beside_it(
    make_session, write_run, tmp_path, capsys
):
    write_run(make_session({"forward": 5 * MS}, steps=10))
    (tmp_path / "notes.jsonl").write_text("{}")
    assert main(["report", str(tmp_path / "notes.jsonl")]) == 2
    assert "notes.jsonl is a file. Pass a run's log dir" in capsys.readouterr().err


def test_without_a_path_and_without_lightning_logs_the_newest_run_nearby_is_read(
    make_session, write_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    for version, seconds in enumerate((2, 1)):
        run = write_run(make_session({"forward": 5 * MS}), name=f"logs/lightning_logs/{version}")
        record = next(Path(run).rglob("rank0.jsonl"))
        os.utime(record, (seconds, seconds))
    assert main(["report"]) == 0
    assert capsys.readouterr().out.startswith("logs/lightning_logs/0: fit")


def test_without_a_path_lightnings_own_log_dir_is_looked_into(
    make_session, write_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert "lightning_logs does not exist. Pass the log dir" in capsys.readouterr().err
    write_run(make_session({"forward": 5 * MS}, steps=10), name="lightning_logs/version_0")
    assert main(["report"]) == 0
    assert "median 5.00 ms" in capsys.readouterr().out
