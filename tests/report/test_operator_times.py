"""When operators are timed for a report, and what the report shows of them."""

import pytest
from document_samples import CALL, cpu_run
from made_records import make_session

from lightning_gpuprof.records.operator_times import OperatorTimes
from lightning_gpuprof.records.schema import Device
from lightning_gpuprof.report import operator_times as module
from lightning_gpuprof.report.build_run import build_run
from lightning_gpuprof.report.load import load_report

MS = 1_000_000


@pytest.fixture
def asked(monkeypatch):
    """The machines and calls that were asked for; nothing is measured."""
    asked = []

    def times(machine, calls, *, measure):
        asked.append((machine.threads, [call.name for call in calls], measure))
        return {
            call.key: OperatorTimes(MS // 5, MS // 5, MS // 5, 4 * MS, MS // 5) for call in calls
        }

    monkeypatch.setattr(module, "operator_times", times)
    return asked


@pytest.fixture
def write(tmp_path):
    """Write `cpu_run`."""
    return lambda row=CALL, **options: str(cpu_run(tmp_path / "run", row, **options))


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
        ({**CALL, "fastest_ns": 90_000}, {}),
        ({**CALL, "total_ns": 900_000}, {}),
        ({**CALL, "flop_count": 10**11}, {}),
        ({**CALL, "flop_count": None}, {}),
        ({**CALL, "call": {**CALL["call"], "name": "aten::embedding"}}, {}),
        ({**CALL, "call": {**CALL["call"], "name": "aten::copy_"}}, {}),
        (CALL, {"device": Device(type="cuda", name="H100")}),
        (CALL, {"device": Device(type="cpu")}),
        (CALL, {"versions": {}}),
        (CALL, {"torch_threads": None}),
    ],
)
def test_nothing_is_asked_of_what_cannot_be_slow_or_known(write, asked, row, start):
    load_report(write(row, **start), time_operators=True)
    assert not asked


def test_without_calls_by_inputs_there_is_no_section_of_rates(write_run):
    document = build_run(load_report(write_run(make_session({"forward": MS}))))
    assert document.section("operator_rates") is None
