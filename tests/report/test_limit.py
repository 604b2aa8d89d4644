"""What limits a run's steps, and who says what to do about it."""

import pytest

from lightning_gpuprof.findings.model import Finding, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.schema import Device
from lightning_gpuprof.report.run.limit import ANSWERED_BY, waiting_side

MS = 1_000_000
SIDES = {
    "data": ({"data_wait": 6 * MS, "forward": 4 * MS}, "device/data_wait", "run_ahead/data_wait"),
    "host": ({"forward": 10 * MS}, "device/forward", "run_ahead/forward"),
}


def info(finding_id):
    words = {"title": "", "advice": "Leave num_workers at 0.", "evidence": {}, "confidence": 0.9}
    return Finding(id=finding_id, severity=Severity.INFO, **words)


@pytest.mark.parametrize(
    ("side", "finding_id", "advised"),
    [("data", "data-wait", "more workers"), ("host", "host-bound", "torch.compile")],
)
def test_a_side_that_a_finding_answers_has_no_advice_beside_it(analyze, side, finding_id, advised):
    phases, on_device, run_ahead = SIDES[side]
    columns = {"device_dur": 10 * MS, on_device: 6 * MS, run_ahead: 0}
    run = analyze(phases, columns=columns, device=Device(type="cuda"))
    title, advice = waiting_side(run)
    assert title == f"The GPU waits for {'data' if side == 'data' else 'the host'} in 100% of steps"
    assert advised in advice
    assert waiting_side(run, [info("slow-logging")]) == (title, advice)
    answered = waiting_side(run, [info(finding_id), info(finding_id)])
    assert answered == (title, f"Look at the finding {finding_id}.")


def test_the_findings_that_answer_a_side_exist():
    assert {name for names in ANSWERED_BY.values() for name in names} <= set(rules())


def test_a_device_that_works_all_the_time_is_the_limit_though_the_host_waits_for_it(analyze):
    columns = {"device_dur": 10 * MS, "device/forward": 5 * MS, "device/backward": 5 * MS}
    ahead = {"run_ahead/forward": 5 * MS, "run_ahead/backward": 1_000}
    phases = {"forward": 5 * MS, "backward": 5 * MS}
    options = {"columns": columns | ahead, "device": Device(type="cuda")}
    trace = {"gpu": {"busy_ns": 20 * MS, "compute_ns": 20 * MS, "steps": 2}}
    title, advice = waiting_side(analyze(phases, trace=trace, **options))
    assert title == "The GPU is the limit"
    assert "The host waits for it in 100% of steps, which costs nothing: it is busy." in advice
    trace["gpu"]["busy_ns"] = trace["gpu"]["compute_ns"] = 8 * MS
    title, _ = waiting_side(analyze(phases, trace=trace, **options))
    assert title == "The host waits for the device in 100% of steps"


@pytest.mark.parametrize(
    ("trace", "advised", "not_advised"),
    [
        ({"compiled": True}, "torch.compile is in use", "or CUDA graphs"),
        ({"launches": {"graph_count": 3}}, "CUDA graphs are in use", "torch.compile"),
        ({"device": {"name": "x", "vendor": "intel", "count": 1}}, "torch.compile, a", "CUDA"),
    ],
)
def test_what_a_trace_shows_to_be_in_use_is_not_proposed(analyze, trace, advised, not_advised):
    phases, on_device, run_ahead = SIDES["host"]
    columns = {"device_dur": 10 * MS, on_device: 6 * MS, run_ahead: 0}
    run = analyze(phases, columns=columns, device=Device(type="cuda"), trace=trace)
    _, advice = waiting_side(run)
    assert advised in advice
    assert not_advised not in advice
