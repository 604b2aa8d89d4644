import pytest

import lightning_gpuprof
from lightning_gpuprof.cli import main
from lightning_gpuprof.errors import RecordError

MS = 1_000_000


def test_python_gets_the_text_that_the_command_prints(make_session, write_run, capsys):
    run = write_run(make_session({"forward": 5 * MS}, steps=10))
    main(["report", run])
    assert lightning_gpuprof.report(run) == capsys.readouterr().out


def test_python_may_ask_for_another_session_and_for_more(make_session, write_run):
    two = make_session({"forward": MS}) + make_session({"forward": 2 * MS}, session=1)
    run = write_run(two)
    assert "median 1.00 ms" in lightning_gpuprof.report(run, session=0)
    assert len(lightning_gpuprof.report(run, verbose=True)) > len(lightning_gpuprof.report(run))


def test_what_is_no_run_is_said(tmp_path):
    with pytest.raises(RecordError, match="does not exist"):
        lightning_gpuprof.report(tmp_path / "nowhere")
