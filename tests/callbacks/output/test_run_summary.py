import warnings

import pytest

from lightning_gpuprof.callbacks.output import run_summary
from lightning_gpuprof.callbacks.output.run_summary import start_summary
from lightning_gpuprof.views.tab import summary
from lightning_gpuprof.views.tab.summary import read_summary


@pytest.fixture
def run(made_runs, tmp_path, monkeypatch):
    monkeypatch.setattr(summary, "LARGE_BYTES", 1)
    return str(made_runs.demo_run(tmp_path))


def test_a_long_run_is_summed_up_by_a_process_of_its_own(run):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert start_summary(run)
    assert not warned
    process = run_summary._STARTED[-1]
    assert process.wait(60) == 0
    assert read_summary(run) is not None


def test_a_short_or_remote_run_is_not(run, monkeypatch):
    started = []
    assert start_summary(run, start=started.append)
    assert not start_summary("s3://bucket/run", start=started.append)
    monkeypatch.setattr(summary, "LARGE_BYTES", 1 << 40)
    assert not start_summary(run, start=started.append)
    assert started == [run]


def test_a_process_that_cannot_be_started_does_not_disturb_training(run):
    def refuse(path):
        raise OSError("no more processes")

    assert not start_summary(run, start=refuse)
