"""The tab answers at once for a trace that nobody has analysed, and fills in when that is done."""

import json
import os
from pathlib import Path

import pytest
from document_parts import lines_in, read_document
from tab_client import ROUTE, make_client

from lightning_gpuprof.report.comparison import write_comparison
from lightning_gpuprof.report.stored_analysis import write_analysis
from lightning_gpuprof.tab import answers

TRACE = "rank0-cycle0.pt.trace.json.gz"


@pytest.fixture
def logs(made_runs, tmp_path):
    made_runs.traced_run(tmp_path / "a", prepared=False)
    return tmp_path


@pytest.fixture
def trace(logs):
    return str(logs / "a/plugins/gpuprof" / TRACE)


@pytest.fixture
def get(logs, started):
    client, _ = make_client(logs, start=started)
    return lambda path, **params: client.get(f"{ROUTE}/{path}", query_string=params).json


def notices(answer):
    section = read_document(answer).section("notices")
    return " ".join(lines_in([section])) if section else ""


def test_opening_a_run_has_its_trace_analysed_and_the_page_fills_in(get, trace, started):
    assert "is not analysed yet" in notices(get("report", run="a"))
    assert list(started) == [("analysis", trace)]
    assert get("operators", run="a")["state"] == "being-analysed"
    assert get("device", run="a")["state"] == "being-analysed"
    before = get("runs")["runs"]
    write_analysis(trace)
    started["analysis", trace].end(0)
    assert get("runs")["runs"] != before  # by which the page knows that it has to draw again
    assert get("operators", run="a")["state"] == "analysed"
    assert notices(get("report", run="a")) == ""
    assert list(started) == [("analysis", trace)]


def test_the_timeline_that_is_looked_at_comes_before_the_analysis(get, trace, started):
    assert get("timeline", run="a")["state"] == "preparing"
    assert list(started) == [("timeline", trace)]


def test_without_its_trace_a_cycle_is_not_analysed(get, trace, started):
    os.unlink(trace)
    assert get("operators", run="a")["state"] == "not-analysed"
    assert started == {}


def test_an_analysis_of_a_newer_version_is_left_alone(get, trace, started):
    Path(f"{trace}.analysis.json").write_text(json.dumps({"analysis_version": 1 << 30}))
    assert get("operators", run="a")["state"] == "not-analysed"
    assert started == {}


def test_comparing_has_both_runs_analysed(get, logs, trace, started, made_runs):
    made_runs.traced_run(logs / "b")
    get("compare", run="b", base="a")
    assert list(started) == [("analysis", trace)]


def test_long_runs_are_compared_outside_the_request(get, logs, started, made_runs, monkeypatch):
    for name in ("b", "c"):
        made_runs.traced_run(logs / name)
    at_once = get("compare", run="c", base="b")
    assert started == {}

    monkeypatch.setattr(answers, "AT_ONCE_BYTES", 100)
    assert get("compare", run="c", base="b") == {"state": "preparing", "error": None}
    ((work, process),) = started.items()
    assert work[:3] == ("comparison", str(logs / "b"), str(logs / "c"))
    write_comparison(*work[1:])
    process.end(0)
    assert get("compare", run="c", base="b") == at_once

    # A run that goes on shows the comparison before, until there is another one.
    with open(logs / "c/plugins/gpuprof/rank0.jsonl", "a") as file:
        file.write("\n")
    assert get("compare", run="c", base="b") == at_once
    assert len(started) == 2
    (_, (work, process)) = started.items()
    write_comparison(*work[1:])
    process.end(0)
    get("compare", run="c", base="b")
    assert len(started) == 2
    assert os.listdir(os.path.dirname(work[3])) == [os.path.basename(work[3])]


def test_an_analysis_made_again_is_read_even_if_it_is_as_long_as_before(get, trace):
    write_analysis(trace)
    path = Path(f"{trace}.analysis.json")
    before, operators = get("runs"), get("operators", run="a")
    path.write_text(path.read_text().replace('"aten::', '"bten::'))
    os.utime(path, ns=(1 << 61, 1 << 61))
    assert get("operators", run="a") != operators
    assert get("runs") != before
