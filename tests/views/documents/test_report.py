import json
import os

import pytest

from lightning_gpuprof.errors import RecordError
from lightning_gpuprof.records.facts import AnomalyMode
from lightning_gpuprof.records.schema import Loader, OutsideSpan, ProfilerCycle
from lightning_gpuprof.views.console.console import render
from lightning_gpuprof.views.documents.report import load_report

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
        json.dump({"operators": operators, "steps": [{}, {}]}, file)
    return path


def test_the_payload_is_json_and_keeps_the_documented_figures(run):
    payload = json.loads(json.dumps(load_report(run).payload()))

    assert payload["schema_version"] == 1
    assert payload["run"]["status"] == "finished"
    assert payload["run"]["wall_ns"] == payload["run"]["accounted_ns"] == 1_005 * MS
    assert payload["phases"]["data_wait"] == {
        "total_ns": 600 * MS,
        "outside_ns": 0,
        "frac": 600 / 1_005,
        "median_ns": 6 * MS,
        "mean_ns": 6 * MS,
        "max_ns": 6 * MS,
        "step_frac": 0.6,
        "parts": [],
    }
    assert payload["phases"]["callbacks"]["parts"][0]["name"] == "GradNorm"
    assert sum(phase["total_ns"] for phase in payload["phases"].values()) == 1_005 * MS
    assert sum(phase["frac"] for phase in payload["phases"].values()) == pytest.approx(1)
    assert (payload["steps"]["count"], payload["steps"]["median_ns"]) == (100, 10 * MS)
    assert payload["steps"]["samples_per_s"] == 3_200
    assert payload["device"]["type"] == "cpu"
    assert payload["device"]["memory"] is None


def test_findings_come_first_things_first_with_every_documented_field(run):
    findings = load_report(run).payload()["findings"]
    assert [finding["id"] for finding in findings] == [
        "data-wait",
        "slow-callback",
        "anomaly-detection-on",  # may save nothing
        "costly-line",  # saves nothing
    ]
    assert set(findings[0]) == {
        "id",
        "severity",
        "title",
        "advice",
        "evidence",
        "saving_ns",
        "cause_ns",
        "likely_ns",
        "indirect_ns",
        "saving_frac",
        "confidence",
        "where",
        "change",
        "when",
        "measured",
    }
    assert findings[0]["severity"] == "critical"
    assert set(findings[0]["saving_ns"]) == {"low", "high"}
    assert findings[1]["where"] == [{"phase": "callbacks", "name": "GradNorm"}]


def test_a_trace_has_its_twenty_operators_with_the_most_time_of_their_own(run):
    (trace,) = load_report(run).payload()["trace_files"]
    assert (trace["file"], trace["analysed"]) == ("rank0-cycle0.pt.trace.json.gz", True)
    assert [operator["name"] for operator in trace["operators"]] == [
        f"aten::op{i}" for i in range(29, 9, -1)
    ]


def test_a_half_written_analysis_is_left_out_with_a_notice(run):
    path = f"{run}/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz.analysis.json"
    with open(path, "w") as file:
        file.write('{"operators": [')
    report = load_report(run)
    assert report.payload()["trace_files"][0]["analysed"] is False
    assert "cannot be read" in report.notices[0]


def test_a_trace_without_its_analysis_is_told_with_what_to_do(run):
    trace = f"{run}/plugins/gpuprof/rank0-cycle0.pt.trace.json.gz"
    os.unlink(f"{trace}.analysis.json")
    assert load_report(run).notices == ()  # the trace itself is gone too
    open(trace, "w").close()
    (notice,) = load_report(run).notices
    assert notice.startswith("rank0-cycle0.pt.trace.json.gz is not analysed yet")
    assert notice.endswith(f"lightning-gpuprof report {run}")


def test_a_run_without_steps_has_the_same_keys_as_any_other(run, make_session, write_run):
    empty = load_report(write_run(make_session({}, steps=0), name="empty")).payload()
    full = load_report(run).payload()
    assert empty.keys() == full.keys()
    assert empty["steps"].keys() == full["steps"].keys()
    assert (empty["steps"]["count"], empty["steps"]["median_ns"]) == (0, None)
    assert empty["findings"] == []


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
    assert "From step 300 on steps take 12.0 ms instead of 1.00 ms: means are of both." in (
        report.notices
    )
    # 75 ms of a run of 1.5 s.
    assert "closing profiler windows took 75.0 ms (5.0%" in " ".join(render(report).split())
