from pathlib import Path

import pytest

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.views.documents import stored_analysis

WINDOW = {"wait": 2, "warmup": 1, "active": 2}


def analyses(trainer):
    return [path.name for path in Path(trainer.log_dir).rglob("*.analysis.json")]


@pytest.fixture
def said(caplog):
    """The lines shown to the user so far."""
    caplog.set_level("INFO", logger="lightning_gpuprof")
    return lambda: "\n".join(one.getMessage() for one in caplog.records)


def test_the_report_at_the_end_holds_the_trace_and_is_no_part_of_the_run(fit, said, monkeypatch):
    ended = []

    def analyse(trace, progress):
        (session,) = read_run(Path(trace).parents[2])[0].sessions
        ended.append(session.end.status)
        write_analysis(trace, progress)

    write_analysis = stored_analysis.write_analysis
    monkeypatch.setattr(stored_analysis, "write_analysis", analyse)
    trainer = fit(GpuProfCallback(), limit_train_batches=20)
    assert ended == ["finished"]
    assert analyses(trainer) == ["rank0-cycle0.pt.trace.json.gz.analysis.json"]
    assert "TOP OPERATORS" in said()
    assert "not analysed yet" not in said()


def test_without_a_report_nothing_is_analysed(fit):
    assert analyses(fit(GpuProfCallback(report=False, **WINDOW))) == []


def test_ctrl_c_skips_the_analysis_and_nothing_else(fit, said, monkeypatch):
    def interrupted(trace, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored_analysis, "write_analysis", interrupted)
    trainer = fit(GpuProfCallback(**WINDOW))
    assert trainer.state.finished
    assert "made without its trace" in said()
    assert "WHERE A STEP GOES" in said()


def test_an_analysis_that_fails_is_said_and_the_report_shown(fit, said, monkeypatch):
    def fails(trace, progress):
        raise TraceError("no such kind")

    monkeypatch.setattr(stored_analysis, "write_analysis", fails)
    fit(GpuProfCallback(**WINDOW))
    assert "rank0-cycle0.pt.trace.json.gz cannot be analysed: no such kind" in said()
    assert "WHERE A STEP GOES" in said()


def test_the_traces_of_the_session_alone_are_analysed(fit, tmp_path):
    for report in (False, True):
        trainer = fit(GpuProfCallback(report=report, log_dir=str(tmp_path), **WINDOW))
    assert trainer.state.finished
    names = [path.name for path in tmp_path.rglob("*.analysis.json")]
    assert names == ["rank0-session1-cycle0.pt.trace.json.gz.analysis.json"]
