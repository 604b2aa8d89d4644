import json

import pytest

from lightning_gpuprof.cli import main
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query
from lightning_gpuprof.views.tab.tab import NEEDS_MORE, VIEWS, find_view

MS = 1_000_000


def test_the_report_of_a_run_is_printed(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run]) == 0
    assert "median 5.00 ms" in capsys.readouterr().out


def test_json_is_the_document_alone(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"]["count"] == 10


@pytest.mark.parametrize("name", sorted(set(VIEWS) - set(NEEDS_MORE)))
def test_the_data_of_each_view_is_printed_as_its_route_answers_it(
    make_session, write_run, capsys, name
):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run, "--view", name]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(find_view(name)(LoadedRun(run), Query({}))))


def test_a_view_that_needs_more_than_a_run_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["report", "run", "--view", "timeline_cut"])
    assert "invalid choice: 'timeline_cut'" in capsys.readouterr().err


def test_a_session_can_be_chosen(make_session, write_run, capsys):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    run = write_run(two)
    main(["report", run, "--session", "0", "--json"])
    assert json.loads(capsys.readouterr().out)["steps"]["median_ns"] == MS
    assert main(["report", run, "--session", "5"]) == 2
    assert "There is no session 5" in capsys.readouterr().err


def test_the_html_is_about_the_chosen_session(make_session, write_run, tmp_path, capsys):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    page = tmp_path / "report.html"
    assert main(["report", write_run(two), "--html", str(page), "--session", "0"]) == 0
    assert "median 1.00 ms" in page.read_text()


def test_a_missing_run_is_a_message_and_status_2(tmp_path, capsys):
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_without_a_path_lightnings_own_log_dir_is_looked_into(
    make_session, write_run, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert main(["report"]) == 2
    assert "lightning_logs does not exist. Pass the log dir" in capsys.readouterr().err
    write_run(make_session({"forward": 5 * MS}, steps=10), name="lightning_logs/version_0")
    assert main(["report"]) == 0
    assert "median 5.00 ms" in capsys.readouterr().out
