"""When operators are timed for a report, and what the report shows of them."""

import msgspec
import pytest
from analyzed import made_analysis
from made_records import make_session

from lightning_gpuprof.analysis.trace_tables import ANALYSIS_VERSION
from lightning_gpuprof.records.facts import CoreWait
from lightning_gpuprof.records.files import ANALYSIS_SUFFIX, plugin_dir, trace_name
from lightning_gpuprof.records.operator_times import OperatorTimes
from lightning_gpuprof.records.schema import Device, ProfilerCycle
from lightning_gpuprof.report import operator_times as module
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report

MS = 1_000_000
TRACE = trace_name(0, 0, 0)
ROW = {
    "call": {"name": "aten::mm", "dims": [[64, 512], [512, 512]], "dtypes": ["float", "float"]},
    "phase": "forward",
    "count": 2,
    "total_ns": 10 * MS,
    "fastest_ns": 5 * MS,
    "spread": 1.1,
    "flop_count": 2 * 64 * 512 * 512,
    "num_bytes": 1_310_720,
}


@pytest.fixture
def asked(monkeypatch):
    """The machines and calls that were asked for; nothing is measured."""
    asked = []

    def times(machine, calls, *, measure):
        asked.append((machine.threads, [call.name for call in calls], measure))
        return {call.key: OperatorTimes(MS // 5, MS // 5, MS // 5, 4 * MS) for call in calls}

    monkeypatch.setattr(module, "operator_times", times)
    return asked


@pytest.fixture
def write(write_run):
    """Write a run of steps of 10 ms with a trace of two steps, which hold this call."""

    def written(row=ROW, **options):
        cycle = ProfilerCycle(cycle=0, first_step=3, last_step=4, trace_file=TRACE)
        start = {
            "device": Device(type="cpu", name="a CPU"),
            "versions": {"torch": "2.13.0"},
            "torch_threads": 8,
            "cpu_count": 2,
        }
        records = [cycle, CoreWait(1_000 * MS, MS)]
        session = make_session({"forward": 10 * MS}, records=records, **{**start, **options})
        run = write_run(session)
        mark = {"name": "ProfilerStep#3", "start_ns": 0, "dur_ns": 10 * MS}
        analysis = made_analysis(
            analysis_version=ANALYSIS_VERSION, host_calls=[row], steps=[mark, mark]
        )
        with open(f"{plugin_dir(run)}/{TRACE}{ANALYSIS_SUFFIX}", "wb") as file:
            file.write(msgspec.json.encode(analysis))
        return run

    return written


def test_a_call_that_may_be_slow_is_timed_and_found_slow(write, asked):
    report = load_report(write(), time_operators=True)
    # Eight threads on two cores take turns.
    assert asked == [(2, ["aten::mm"], True)]
    assert [finding.id for finding in report.findings] == ["slow-operators"]
    (row,) = build_run(report).section("operator_rates").body[0].rows
    assert row["gflop_per_s"] == pytest.approx(6.71, abs=0.01)
    assert (row["inputs"], row["normal_ns"]) == ("[64, 512] [512, 512]", MS // 5)


def test_only_a_reader_who_may_wait_measures_and_never_while_the_run_trains(write, asked):
    run = write()
    load_report(run)
    load_report(write(end=False), time_operators=True)
    assert [measure for _, _, measure in asked] == [False, False]


@pytest.mark.parametrize(
    ("row", "start"),
    [
        ({**ROW, "fastest_ns": 90_000}, {}),
        ({**ROW, "total_ns": 900_000}, {}),
        ({**ROW, "flop_count": 10**11}, {}),
        ({**ROW, "flop_count": None}, {}),
        ({**ROW, "call": {**ROW["call"], "name": "aten::embedding"}}, {}),
        (ROW, {"device": Device(type="cuda", name="H100")}),
        (ROW, {"device": Device(type="cpu")}),
        (ROW, {"versions": {}}),
        (ROW, {"torch_threads": None}),
    ],
)
def test_nothing_is_asked_of_what_cannot_be_slow_or_known(write, asked, row, start):
    load_report(write(row, **start), time_operators=True)
    assert not asked


def test_without_calls_by_inputs_there_is_no_section_of_rates(write_run):
    document = build_run(load_report(write_run(make_session({"forward": MS}))))
    assert document.section("operator_rates") is None
