import json
import os
import re
from io import StringIO
from types import SimpleNamespace

import msgspec
import pytest
from tensorboard.backend import application
from tensorboard.plugins import base_plugin
from werkzeug.test import Client

from lightning_gpuprof.tb_plugin.plugin import GpuProfPlugin
from lightning_gpuprof.tb_plugin.summaries import Summaries
from lightning_gpuprof.views.documents.trace_notices import STILL_ANALYSED
from lightning_gpuprof.views.html.web_assets import STATIC
from lightning_gpuprof.views.tab import loaded_run, summary
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.summarise import OVERVIEW_BUCKETS, write_summary
from lightning_gpuprof.views.tab.summary import SUMMARY_NAME, read_summary

PAGE = (
    ("run", {}),
    ("report", {}),
    ("steps", {}),
    ("steps", {"buckets": OVERVIEW_BUCKETS}),
    ("what_if", {"removing": "data-wait"}),
    ("traces", {}),
    ("memory", {}),
    ("timeline", {}),
)


@pytest.fixture
def run(made_runs, tmp_path):
    return made_runs.demo_run(tmp_path / "logs" / "a")


def file_of(run):
    return run / "plugins/gpuprof" / SUMMARY_NAME


def answers(run):
    context = base_plugin.TBContext(logdir=str(run.parent), flags=SimpleNamespace(logdir_spec=""))
    client = Client(application.TensorBoardWSGI([GpuProfPlugin(context)]))
    found = []
    for name, params in PAGE:
        answer = client.get(f"/data/plugin/gpuprof/{name}", query_string={"run": "a", **params})
        assert answer.status_code == 200
        found.append(answer.json)
    return found


def test_a_summed_up_run_is_shown_as_one_read_and_its_records_are_not_read(run, monkeypatch):
    plain = answers(run)
    write_summary(str(run))
    monkeypatch.setattr(loaded_run, "read_run", lambda *_: pytest.fail("the records were read"))
    assert answers(run) == plain


def test_what_a_summary_does_not_hold_is_read(run):
    write_summary(str(run))
    loaded = LoadedRun(str(run))
    assert loaded.summed_up("steps", {"run": "a", "first": "10", "last": "20"}) is None
    assert loaded.summed_up("report", {"run": "a", "session": "0"}) is None
    assert loaded.summed_up("steps", {"run": "a", "first": "", "rank": ""}) is not None


def test_the_overview_asks_for_what_is_kept():
    script = (STATIC / "views/overview.js").read_text()
    assert re.findall(r"OVERVIEW_BUCKETS = (\d+)", script) == [OVERVIEW_BUCKETS]


def test_a_run_that_went_on_after_its_summary_is_read_again(made_runs, run):
    write_summary(str(run))
    assert read_summary(str(run)) is not None
    made_runs.write_run(run, [made_runs.run_start(session=1)])
    assert read_summary(str(run)) is None


def test_records_replaced_by_others_of_the_same_size_make_a_summary_stale(run):
    write_summary(str(run))
    records = run / "plugins/gpuprof/rank0.jsonl"
    os.utime(records, ns=(1, 1))
    assert read_summary(str(run)) is None


def test_while_a_trace_is_still_being_analysed_no_summary_is_written(run, monkeypatch):
    report = LoadedRun.report

    def awaiting(loaded, query):
        payload = report(loaded, query)
        payload["run"]["notices"] = [f"a.json.gz {STILL_ANALYSED}: look again"]
        return payload

    monkeypatch.setattr(LoadedRun, "report", awaiting)
    assert write_summary(str(run)) is None
    assert not file_of(run).exists()


def test_a_summary_of_a_run_that_was_moved_is_ignored(run):
    write_summary(str(run))
    moved = run.rename(run.parent / "b")
    assert read_summary(str(moved)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"schema_version": 99},
        {"version": "0.0.0"},
        {"answers": 3},
        {"answers": {"report": 3}},
        {"files": {}},
    ],
)
def test_a_foreign_summary_is_ignored(run, change):
    write_summary(str(run))
    content = json.loads(file_of(run).read_bytes())
    file_of(run).write_bytes(msgspec.json.encode({**content, **change}))
    assert read_summary(str(run)) is None


def test_half_a_summary_is_ignored(run):
    write_summary(str(run))
    whole = file_of(run).read_bytes()
    file_of(run).write_bytes(whole[: len(whole) // 2])
    assert read_summary(str(run)) is None


class Process:
    def __init__(self):
        self.returncode, self.stderr = None, StringIO("")

    def poll(self):
        return self.returncode


@pytest.fixture
def started(monkeypatch):
    """Every run counts as large; returns the runs that a summary was started for."""
    monkeypatch.setattr(summary, "LARGE_BYTES", 0)
    return []


def wanting(started):
    def start(path):
        started.append(path)
        process = Process()
        process.returncode = 0
        return process

    return Summaries(start)


def test_a_large_run_is_summed_up_once_for_each_state_that_it_is_seen_in(run, started, made_runs):
    summaries = wanting(started)
    for _ in range(3):
        summaries.want(LoadedRun(str(run)))
    assert started == [str(run)]
    made_runs.write_run(run, [made_runs.run_start(session=1), made_runs.run_end(0)])
    summaries.want(LoadedRun(str(run)))
    assert len(started) == 2


def test_a_run_that_has_a_summary_or_is_live_starts_none(run, started, made_runs, tmp_path):
    summaries = wanting(started)
    write_summary(str(run))
    summaries.want(LoadedRun(str(run)))
    summaries.want(LoadedRun(str(made_runs.live_run(tmp_path / "live"))))
    assert started == []


def test_a_small_run_starts_none(run):
    started = []
    wanting(started).want(LoadedRun(str(run)))
    assert started == []
