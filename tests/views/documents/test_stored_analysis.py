import json
import os
import zlib
from pathlib import Path

import pytest

from lightning_gpuprof.cli import main, renewal
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, LOCAL, plugin_dir
from lightning_gpuprof.tb_plugin.preparer import ANALYSIS, start_process
from lightning_gpuprof.tb_plugin.renewals import Renewals
from lightning_gpuprof.tb_plugin.run_cache import RunCache
from lightning_gpuprof.views.documents.report import load_report
from lightning_gpuprof.views.documents.stored_analysis import (
    ANALYSIS_VERSION,
    older_analyses,
    write_analysis,
)
from lightning_gpuprof.views.tab.loaded_run import LoadedRun
from lightning_gpuprof.views.tab.query import Query
from lightning_gpuprof.views.tab.runs import runs_view
from lightning_gpuprof.views.tab.tab import find_view

TABLES = (3, 317770950)
"""The version, and a checksum of the names in an analysis at that version."""


@pytest.fixture
def run(made_runs, tmp_path):
    return made_runs.traced_run(tmp_path / "logs/a")


def kept(run):
    (path,) = Path(plugin_dir(str(run))).glob(f"*{ANALYSIS_SUFFIX}")
    return path


def trace_of(run):
    return Path(str(kept(run)).removesuffix(ANALYSIS_SUFFIX))


def make_older(run):
    """Leave the analysis as a version would have that knew fewer tables."""
    document = json.loads(kept(run).read_text())
    del document["analysis_version"], document["host_stretches"]
    kept(run).write_text(json.dumps(document))


def names(value, at=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{at}.{key}"
            yield from names(inner, f"{at}.{key}")
    for inner in value if isinstance(value, list) else ():
        yield from names(inner, at)


def test_the_version_goes_up_with_the_tables(run):
    document = json.loads(kept(run).read_text())
    found = zlib.crc32(" ".join(sorted(set(names(document)))).encode())
    assert (ANALYSIS_VERSION, found) == TABLES, "raise ANALYSIS_VERSION, and note both here"


def test_an_analysis_is_older_where_it_has_no_version_or_a_lower_one(run):
    assert older_analyses(str(run)) == []
    make_older(run)
    assert older_analyses(str(run)) == [str(trace_of(run))]
    kept(run).write_text(json.dumps({"analysis_version": ANALYSIS_VERSION + 1}))
    assert older_analyses(str(run)) == []


@pytest.mark.parametrize(
    "torn", ["", '{"analysis_version"', "[]", "null", '{"analysis_version":"a"}']
)
def test_an_analysis_that_is_no_whole_document_is_made_anew_too(run, capsys, torn):
    whole = kept(run).read_text()
    kept(run).write_text(torn)
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr()
    assert "anew" in said.err
    assert "TOP OPERATORS" in said.out
    assert "still being analysed" not in said.out
    assert json.loads(kept(run).read_text()).keys() == json.loads(whole).keys()


NEWER = {"analysis_version": ANALYSIS_VERSION + 1, "operators": {"rows": 3}, "steps": 7, "gpu": []}


@pytest.mark.parametrize("command", [["report"], ["report", "--view", "operators"], ["compare"]])
def test_an_analysis_of_a_newer_version_is_made_anew(run, capsys, command):
    whole = kept(run).read_text()
    kept(run).write_text(json.dumps(NEWER))
    assert main([*command, str(run), *[str(run)] * (command == ["compare"])]) == 0
    assert "anew: its analysis is of another version" in capsys.readouterr().err
    assert json.loads(kept(run).read_text()).keys() == json.loads(whole).keys()


def test_where_its_trace_is_gone_a_newer_one_is_left_out(run, capsys):
    kept(run).write_text(json.dumps(NEWER))
    trace_of(run).unlink()
    assert main(["report", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "is of a newer version of this package, and left out" in said
    assert "still being analysed" not in said


def test_the_tab_shows_nothing_of_a_newer_one_and_does_not_make_it_anew(run):
    """Its process may be of the newer version, and would go on making what this one cannot read."""
    kept(run).write_text(json.dumps(NEWER))
    loaded = LoadedRun(str(run))
    assert loaded.older_analyses == []
    assert find_view("operators")(loaded, Query({}))["state"] == "not-analysed"
    assert "newer version" in " ".join(loaded.report(Query({}))["run"]["notices"])


@pytest.mark.parametrize("torn", ['{"analysis_version"', "[]", "3"])
def test_where_its_trace_is_gone_it_is_left_out(run, capsys, torn):
    kept(run).write_text(torn)
    trace_of(run).unlink()
    assert main(["report", str(run)]) == 0
    assert "not a whole JSON document" in " ".join(capsys.readouterr().out.split())


def test_report_makes_an_older_analysis_anew_once(run, capsys):
    whole = json.loads(kept(run).read_text())
    make_older(run)
    assert main(["report", str(run), "--json"]) == 0
    said = capsys.readouterr()
    assert "anew" in said.err
    (trace,) = json.loads(said.out)["trace_files"]
    assert (trace["analysed"], trace["older_analysis"]) == (True, False)
    renewed = json.loads(kept(run).read_text())
    assert renewed["host_stretches"] == whole["host_stretches"] is not None
    assert main(["report", str(run)]) == 0
    assert "anew" not in capsys.readouterr().err


def test_compare_makes_those_of_both_runs_anew(run, made_runs, tmp_path):
    other = made_runs.traced_run(tmp_path / "logs/b")
    make_older(run)
    make_older(other)
    assert main(["compare", str(run), str(other)]) == 0
    assert older_analyses(str(run)) == older_analyses(str(other)) == []


def test_without_its_trace_an_older_analysis_is_used_and_verbose_says_so(run, capsys):
    make_older(run)
    trace_of(run).unlink()
    assert main(["report", str(run), "--verbose"]) == 0
    said = capsys.readouterr()
    assert "older version of this package, and is gone" in " ".join(said.out.split())
    assert "TOP OPERATORS" in said.out
    assert main(["report", str(run)]) == 0
    assert "older version" not in capsys.readouterr().out
    (told,) = load_report(str(run)).payload()["trace_files"]
    assert told["older_analysis"]


def test_what_cannot_be_made_anew_is_used_as_it_is_and_said(run, capsys, monkeypatch):
    def full(trace):
        raise OSError("No space left on device")

    make_older(run)
    monkeypatch.setattr(renewal, "write_analysis", full)
    assert main(["report", str(run)]) == 0
    said = capsys.readouterr()
    assert "keeps the analysis that it has: No space left" in said.err
    assert "findings may be missing here" in " ".join(said.out.split())


def test_readers_see_the_older_analysis_or_the_new_one_and_nothing_between(run, monkeypatch):
    make_older(run)
    older, seen = kept(run).read_bytes(), []
    replace = os.replace

    def looked_at(part, target):
        seen.append(Path(target).read_bytes())
        replace(part, target)

    monkeypatch.setattr(os, "replace", looked_at)
    write_analysis(str(trace_of(run)))
    assert seen == [older]
    assert json.loads(kept(run).read_text())["analysis_version"] == ANALYSIS_VERSION
    assert not list(kept(run).parent.glob("*.part"))


class Process:
    """One that ends when it is told to."""

    stderr = None

    def __init__(self):
        self.returncode = None

    def poll(self):
        return self.returncode


class TestTheTab:
    def test_has_it_made_anew_by_one_process_while_the_older_one_is_shown(self, run):
        make_older(run)
        started, process = [], Process()
        renewals = Renewals(lambda trace: started.append(trace) or process)
        loaded = LoadedRun(str(run))
        assert renewals.want(loaded)
        assert renewals.want(loaded)
        assert started == [str(trace_of(run))]
        assert loaded.analysis(trace_of(run).name) is not None
        write_analysis(str(trace_of(run)))
        process.returncode = 0
        assert not renewals.want(LoadedRun(str(run)))

    def test_starts_a_process_that_makes_it(self, run):
        make_older(run)
        process = start_process(str(trace_of(run)), ANALYSIS)
        assert (process.communicate()[1], process.returncode) == ("", 0)
        assert older_analyses(str(run)) == []

    def test_does_not_try_again_what_failed(self, run):
        make_older(run)
        started, process = [], Process()
        renewals = Renewals(lambda trace: started.append(trace) or process)
        renewals.want(LoadedRun(str(run)))
        process.returncode = 1
        assert not renewals.want(LoadedRun(str(run)))
        assert len(started) == 1

    def test_reads_the_new_one_even_if_it_is_as_long_as_the_older(self, run):
        runs = RunCache()
        before = runs.get("a", str(run), str(run), LOCAL)
        assert runs.get("a", str(run), str(run), LOCAL) is before
        listed = runs_view({"a": str(run)})
        os.utime(kept(run), ns=(1 << 61, 1 << 61))
        assert runs.get("a", str(run), str(run), LOCAL) is not before
        assert runs_view({"a": str(run)}) != listed
