import json

from lightning_gpuprof.cli import main

MS = 1_000_000


def test_the_report_of_a_run_is_printed(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run]) == 0
    assert "median 5.00 ms" in capsys.readouterr().out


def test_json_is_the_document_alone(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    assert main(["report", run, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"]["count"] == 10


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
