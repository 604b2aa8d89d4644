from pathlib import Path

import pytest
from lightning.pytorch.loggers.logger import DummyLogger

from lightning_gpuprof import GpuProfCallback
from lightning_gpuprof.errors import TraceError
from lightning_gpuprof.records.reader import read_run
from lightning_gpuprof.report import stored_analysis

WINDOW = {"wait": 2, "warmup": 1, "active": 2}


def analyses(trainer):
    return [path.name for path in Path(trainer.log_dir).rglob("*.analysis.json")]


def test_the_report_at_the_end_holds_the_trace_and_is_no_part_of_the_run(fit, shown, monkeypatch):
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
    assert shown("top operators")  # named, as there is no room for them
    assert not shown("not analysed yet")


def test_without_a_report_nothing_is_analysed(fit):
    assert analyses(fit(GpuProfCallback(report=False, **WINDOW))) == []


def test_ctrl_c_skips_the_analysis_and_nothing_else(fit, shown, monkeypatch):
    def interrupted(trace, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(stored_analysis, "write_analysis", interrupted)
    trainer = fit(GpuProfCallback(**WINDOW))
    assert trainer.state.finished
    assert shown("the report is shown without its trace")
    assert shown("WHERE A STEP GOES")


def test_an_analysis_that_fails_is_said_and_the_report_shown(fit, shown, monkeypatch):
    def fails(trace, progress):
        raise TraceError("no such kind")

    monkeypatch.setattr(stored_analysis, "write_analysis", fails)
    fit(GpuProfCallback(**WINDOW))
    assert shown("rank0-cycle0.pt.trace.json.gz cannot be analysed: no such kind")
    assert shown("WHERE A STEP GOES")


def test_the_traces_of_the_session_alone_are_analysed(fit, tmp_path):
    for report in (False, True):
        trainer = fit(GpuProfCallback(report=report, log_dir=str(tmp_path), **WINDOW))
    assert trainer.state.finished
    names = [path.name for path in tmp_path.rglob("*.analysis.json")]
    assert names == ["rank0-session1-cycle0.pt.trace.json.gz.analysis.json"]


class Keeps(DummyLogger):
    """Keeps what it is handed."""

    def __init__(self):
        super().__init__()
        self.files, self.values = [], []
        self.run_id = "42"

    @property
    def experiment(self):
        return self

    def log_metrics(self, metrics, step=None):
        self.values += metrics

    def save(self, path=None, base_path=None, policy=None):
        if path is not None:  # wandb's run takes files by this name
            self.files.append((Path(path).name, Path(base_path) == Path(path).parent, policy))
            self.page = Path(path).read_text(encoding="utf-8")

    def log_artifact(self, run_id, path):
        self.files.append((run_id, Path(path).name))
        self.page = Path(path).read_text(encoding="utf-8")


class WandbLogger(Keeps):
    pass


class MLFlowLogger(Keeps):
    pass


@pytest.mark.parametrize(
    ("logger", "files"),
    [
        (WandbLogger, [("report.html", True, "now")]),
        (MLFlowLogger, [("42", "report.html")]),
        (Keeps, []),
    ],
)
def test_loggers_that_take_files_get_the_report_and_one_setting_keeps_all_back(fit, logger, files):
    told, kept_back = logger(), logger()
    fit(GpuProfCallback(console=False), logger=told)
    fit(GpuProfCallback(console=False, scalars=False), logger=kept_back)
    assert told.files == files
    assert not files or "where the time goes" in told.page
    assert {"loss", "gpuprof/step_ms"} <= set(told.values)
    assert kept_back.files == []
    assert not [name for name in kept_back.values if name == "loss" or "gpuprof" in name]


def test_a_logger_that_refuses_the_file_is_said_and_training_has_ended_well(fit, shown):
    class MLFlowLogger(Keeps):
        def log_artifact(self, run_id, path):
            raise OSError("no room")

    trainer = fit(GpuProfCallback(console=False), logger=MLFlowLogger())
    assert trainer.state.finished
    assert shown("OSError: no room")
