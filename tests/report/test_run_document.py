import json
import os

import pytest

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import AnomalyMode
from lightning_gpuprof.records.schema import Loader, OutsideSpan, ProfilerCycle
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.console import render
from lightning_gpuprof.report.document import (
    SCHEMA_VERSION,
    Bars,
    Figures,
    Interval,
    Table,
    decode,
    encode,
)
from lightning_gpuprof.report.load import load_report

MS = 1_000_000
PHASES = {"data_wait": 6 * MS, "forward": 3 * MS, "callbacks": 1 * MS}


@pytest.fixture
def run(make_session, write_run):
    """A run with a planted wait for data, one analysed trace and a second fit."""
    cycle = ProfilerCycle(
        cycle=0, first_step=3, last_step=4, trace_file="rank0-cycle0.pt.trace.json.gz"
    )
    span = OutsideSpan(where="setup", start_ns=0, dur_ns=5 * MS, phase_ns={"other": 5 * MS})
    path = write_run(
        make_session(
            PHASES,
            parts={"callbacks/GradNorm": 1 * MS},
            loader=Loader(num_workers=0),
            records=[span, cycle, AnomalyMode()],
            wall_ns=1_005 * MS,
            samples=32,
        )
    )
    analysis = f"{path}/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz.analysis.json"
    operators = [
        {"name": f"aten::op{i}", "count": 2, "total_ns": i * MS, "self_ns": i * MS}
        for i in range(30)
    ]
    with open(analysis, "w") as file:
        steps = [{"name": "", "start_ns": 0, "dur_ns": 0}] * 2
        json.dump({"operators": operators, "steps": steps}, file)
    return path


def test_the_document_has_the_figures_of_the_run_and_reads_back_as_it_was(run):
    document = build_run(load_report(run))

    assert decode(encode(document)) == document
    assert document.schema_version == SCHEMA_VERSION == 2
    assert (document.subject.kind, document.subject.status) == ("run", "finished")
    assert document.figure("wall_ns") == document.figure("accounted_ns") == 1_005 * MS
    assert (document.figure("steps_count"), document.figure("median_ns")) == (100, 10 * MS)
    assert document.figure("samples_per_s") == 3_200
    assert document.section("memory") is None


def test_phases_are_bars_with_their_parts_and_add_up_over_the_session(run):
    document = build_run(load_report(run))
    bars = next(part for part in document.parts(Bars) if part.id == "phases").bars
    assert [(bar.label, bar.value, bar.frac, bar.level) for bar in bars] == [
        ("Data wait", 6 * MS, 0.6, 0),
        ("Forward", 3 * MS, 0.3, 0),
        ("Callbacks", 1 * MS, 0.1, 0),
        ("GradNorm", 1 * MS, 0.1, 1),
    ]
    totals = [row for row in document.rows("totals") if not row.get("level")]
    assert sum(row["total_ns"] for row in totals) == 1_005 * MS
    assert sum(row["frac"] for row in totals) == pytest.approx(1)
    assert totals[0] == {
        "phase": "Data wait",
        "total_ns": 600 * MS,
        "outside_ns": 0,
        "frac": 600 / 1_005,
        "median_ns": 6 * MS,
        "mean_ns": 6 * MS,
        "max_ns": 6 * MS,
    }


def test_findings_come_first_things_first_with_their_saving_in_words_and_numbers(run):
    document = build_run(load_report(run))
    assert [finding.id for finding in document.findings] == [
        "data-wait",
        "slow-callback",
        "anomaly-detection-on",  # may save nothing
        "costly-line",  # saves nothing
    ]
    first, second, *_, last = document.findings
    saving = first.saving
    assert first.severity == "critical"
    assert saving.step_after_ns == Interval(10 * MS - saving.high_ns, 10 * MS - saving.low_ns)
    assert saving.frac == Interval(saving.low_ns / 10 / MS, saving.high_ns / 10 / MS)
    assert saving.short in saving.sentence
    assert (first.short_change, first.short_change_is_code) == (
        "DataLoader(..., num_workers=2, persistent_workers=True)",
        True,
    )
    assert [(place.phase, place.name) for place in second.places] == [("callbacks", "GradNorm")]
    assert last.saving is None
    assert document.verdict.finding == first.id
    assert document.verdict.gain_short == saving.short


def test_every_row_of_evidence_has_a_label_and_the_unit_of_its_key(run):
    cards = build_run(load_report(run)).findings
    figures = [figure for card in cards for figure in card.evidence]
    assert ("data_wait_ns", "data wait", "ns") in [(f.key, f.label, f.unit) for f in figures]
    assert all(figure.unit != "number" for figure in figures)


def test_a_trace_has_its_twenty_operators_with_the_most_time_of_their_own(run):
    document = build_run(load_report(run))
    (trace,) = document.rows("trace_files")
    assert (trace["file"], trace["analysed"]) == ("rank0-cycle0.pt.trace.json.gz", True)
    assert [operator["name"] for operator in document.rows("operators")] == [
        f"aten::op{i}" for i in range(29, 9, -1)
    ]


def test_section_ids_and_the_keys_of_figures_and_columns_are_unique(run):
    document = build_run(load_report(run))
    ids = [section.id for section in document.sections]
    assert len(ids) == len(set(ids))
    tables = [part.id for part in document.parts(Table)]
    assert len(tables) == len(set(tables))
    for section in document.sections:
        figures = [part for part in section.body if isinstance(part, Figures)]
        keys = [figure.key for part in figures for figure in part.figures]
        assert len(keys) == len(set(keys)), section.id
    for table in document.parts(Table):
        keys = [column.key for column in table.columns]
        assert len(keys) == len(set(keys)), table.id


def test_a_half_written_analysis_is_left_out_with_a_notice(run):
    path = f"{run}/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz.analysis.json"
    with open(path, "w") as file:
        file.write('{"operators": [')
    report = load_report(run)
    assert build_run(report).rows("trace_files")[0]["analysed"] is False
    assert "cannot be read" in report.notices[0]


def test_a_trace_without_its_analysis_is_told_with_what_to_do(run):
    trace = f"{run}/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
    os.unlink(f"{trace}.analysis.json")
    assert load_report(run).notices == ()  # the trace itself is gone too
    open(trace, "w").close()
    (notice,) = load_report(run).notices
    assert notice.startswith("rank0-cycle0.pt.trace.json.gz is not analysed yet")
    assert notice.endswith(f"lightning-gpuprof report {run}")


def test_a_run_without_steps_has_a_verdict_that_says_so_and_no_phases(make_session, write_run):
    document = build_run(load_report(write_run(make_session({}, steps=0), name="empty")))
    assert (document.verdict.kind, document.findings) == ("not_measured", ())
    assert document.verdict.title == "No training step was recorded"
    assert document.section("phases") is None
    assert document.figure("steps_count") is None


def test_a_folder_of_runs_means_the_newest_of_them(make_session, write_run, tmp_path):
    write_run(make_session(PHASES, steps=5), name="logs/version_0")
    newest = write_run(make_session(PHASES, steps=7), name="logs/version_1")
    os.utime(f"{newest}/plugins/gpuprof/rank0.jsonl", ns=(2**62, 2**62))
    report = load_report(str(tmp_path / "logs"))
    assert (report.run, report.results.steps.count) == (newest, 7)
    assert "holds 2 runs; this is the newest" in report.notices[0]


def test_a_record_file_stands_for_its_run(run):
    report = load_report(f"{run}/plugins/gpuprof/rank0.jsonl")
    assert report.results.steps.count == 100


def test_what_is_no_run_is_refused_with_what_to_pass_instead(tmp_path):
    with pytest.raises(RecordError, match="holds no records"):
        load_report(str(tmp_path))
    (tmp_path / "trace.json").touch()
    with pytest.raises(RecordError, match=r"is a file\. .*lightning-gpuprof analyze"):
        load_report(str(tmp_path / "trace.json"))


def test_a_file_that_is_foreign_to_us_is_refused_with_a_reason(tmp_path):
    folder = tmp_path / "plugins" / "gpuprof"
    folder.mkdir(parents=True)
    (folder / "rank0.jsonl").write_text('{"hello": 1}\n')
    with pytest.raises(RecordError, match=r"line 1 of rank0\.jsonl cannot be read"):
        load_report(str(tmp_path))


def test_a_change_of_pace_and_the_cost_of_closing_windows_are_said(make_session, write_run):
    forward = [MS if step < 300 else 12 * MS for step in range(400)]
    cycle = ProfilerCycle(
        cycle=0, first_step=3, last_step=5, trace_file="t.gz", stop_ns=60 * MS, export_ns=15 * MS
    )
    report = load_report(write_run(make_session({"forward": forward}, steps=400, records=[cycle])))
    told = "Steps take 11.0 ms longer since step 300, mostly in forward"
    assert told in [finding.title for finding in build_run(report).findings]
    assert not any("From step" in notice for notice in report.notices)
    # 75 ms of a run of 1.5 s.
    assert "closing profiler windows took 75.0 ms (5.0%" in " ".join(
        render(build_run(report)).split()
    )
