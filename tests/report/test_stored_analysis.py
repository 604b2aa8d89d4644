import json
import os
import zlib
from pathlib import Path

import pytest
from recorded import keys

from lightning_gpuprof.cli import main
from lightning_gpuprof.records import files
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.document import decode
from lightning_gpuprof.report.load import load_report
from lightning_gpuprof.report.stored_analysis import (
    ANALYSIS_VERSION,
    read_analysis,
    stale_traces,
    write_analysis,
)

TABLES = (16, 3374190612)
"""The version, and a checksum of the names in an analysis at that version."""
NEWER = {"analysis_version": ANALYSIS_VERSION + 1, "operators": {"rows": 3}, "steps": 7, "gpu": []}


@pytest.fixture
def run(made_runs, tmp_path):
    return made_runs.traced_run(tmp_path / "logs/a")


def trace_of(run):
    return Path(plugin_dir(str(run))) / "rank0-cycle0.pt.trace.json.gz"


def kept(run):
    return Path(f"{trace_of(run)}{ANALYSIS_SUFFIX}")


def make_older(run):
    """Leave the analysis as a version would have that knew fewer tables."""
    document = json.loads(kept(run).read_text())
    del document["analysis_version"], document["critical_path"]
    kept(run).write_text(json.dumps(document))


def test_the_version_goes_up_with_the_tables(run):
    document = json.loads(kept(run).read_text())
    found = zlib.crc32(" ".join(sorted(set(keys(document)))).encode())
    assert (ANALYSIS_VERSION, found) == TABLES, "raise ANALYSIS_VERSION, and note both here"


@pytest.mark.parametrize(
    ("content", "stale", "for_commands"),
    [
        (None, True, True),
        ("", True, True),
        ('{"analysis_version"', True, True),
        ("[]", True, True),
        ('{"analysis_version":"a"}', True, True),
        ("{}", True, True),
        (json.dumps({"analysis_version": ANALYSIS_VERSION}), False, False),
        (json.dumps(NEWER), False, True),
    ],
)
def test_a_trace_is_stale_without_a_whole_analysis_of_this_version(
    run, content, stale, for_commands
):
    kept(run).unlink()
    if content is not None:
        kept(run).write_text(content)
    expected = [str(trace_of(run))]
    assert stale_traces(str(run)) == (expected if stale else [])
    assert stale_traces(str(run), or_newer=True) == (expected if for_commands else [])


def test_a_trace_that_was_left_plain_is_analysed_too(run):
    plain = trace_of(run).with_name("rank0-cycle1.pt.trace.json")
    plain.write_text('{"traceEvents": []}')
    assert stale_traces(str(run)) == [str(plain)]


@pytest.mark.parametrize("content", [None, "", json.dumps(NEWER)])
@pytest.mark.parametrize("command", [["report"], ["report", "--view", "operators"], ["compare"]])
def test_commands_analyse_on_demand_and_keep_the_result(run, capsys, command, content):
    whole = json.loads(kept(run).read_text())
    kept(run).unlink()
    if content is not None:
        kept(run).write_text(content)
    assert main([*command, str(run), *[str(run)] * (command == ["compare"])]) == 0
    assert capsys.readouterr().err == ""
    assert json.loads(kept(run).read_text()).keys() == whole.keys()


def test_an_older_analysis_is_made_again_once(run, capsys):
    whole = json.loads(kept(run).read_text())
    make_older(run)
    (notice,) = load_report(str(run)).notices
    assert "older version" in notice
    assert main(["report", str(run), "--json"]) == 0
    (trace,) = decode(capsys.readouterr().out).rows("trace_files")
    assert (trace["analysed"], trace["older"]) == (True, False)
    changed_ns = kept(run).stat().st_mtime_ns
    assert json.loads(kept(run).read_text())["critical_path"] == whole["critical_path"]
    assert main(["report", str(run)]) == 0
    assert kept(run).stat().st_mtime_ns == changed_ns


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (json.dumps(NEWER), "is of a newer version of this package, and left out"),
        ('{"analysis_version"', "cannot be read"),
        ("[]", "cannot be read"),
    ],
)
def test_where_its_trace_is_gone_an_unusable_analysis_is_left_out(run, capsys, content, said):
    kept(run).write_text(content)
    trace_of(run).unlink()
    assert main(["report", str(run)]) == 0
    assert said in " ".join(capsys.readouterr().out.split())


def test_where_its_trace_is_gone_an_older_analysis_is_used(run, capsys):
    make_older(run)
    trace_of(run).unlink()
    assert main(["report", str(run), "--verbose"]) == 0
    assert "TOP OPERATORS" in capsys.readouterr().out
    (trace,) = build_run(load_report(str(run))).rows("trace_files")
    assert trace["older"]


def test_a_trace_that_cannot_be_analysed_is_a_note_in_the_report(run, capsys):
    kept(run).unlink()
    trace_of(run).write_text("this is no trace")
    assert main(["report", str(run)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "rank0-cycle0.pt.trace.json.gz cannot be analysed" in said
    assert "is not analysed yet" not in said


def test_an_analysis_that_cannot_be_kept_serves_its_own_process(run, capsys, monkeypatch):
    def read_only(path):
        raise PermissionError("read-only")

    kept(run).unlink()
    monkeypatch.setattr(files, "written_whole", read_only)
    assert main(["report", str(run), "--verbose"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "cannot be stored: read-only" in said
    assert "TOP OPERATORS" in said
    assert not kept(run).exists()


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
    assert read_analysis(str(trace_of(run))).analysis_version == ANALYSIS_VERSION
    assert not list(kept(run).parent.glob("*.part"))


def test_the_html_report_shows_the_timeline_of_a_trace_that_nobody_laid_out(
    made_runs, tmp_path, capsys
):
    run = made_runs.traced_run(tmp_path / "a", prepared=False)
    assert main(["report", str(run), "--html", str(tmp_path / "a.html")]) == 0
    assert capsys.readouterr().err == ""
    assert Path(f"{trace_of(run)}.layout").is_file()
