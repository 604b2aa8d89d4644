from dataclasses import replace

import pytest
from rule_cases import MS, US, WORK, outcome, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import AnomalyMode, CoreWait
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.operator_times import OperatorInputs, OperatorTimes
from lightning_gpuprof.records.schema import Device

CPU = {
    "device": Device(type="cpu", name="a CPU"),
    "versions": {"torch": "2.13.0"},
    "torch_threads": 1,
}
CALL = {"name": "aten::mm", "dims": [[64, 512], [512, 512]], "dtypes": ["float", "float"]}
KEY = OperatorInputs("aten::mm", ([64, 512], [512, 512]), ("float", "float")).key
ROW = {
    "call": CALL,
    "phase": "forward",
    "count": 2,
    "total_ns": 10 * MS,
    "fastest_ns": 5 * MS,
    "spread": 1.1,
    "flop_count": 2 * 64 * 512 * 512,
    "num_bytes": 1_310_720,
}
NORMAL = OperatorTimes(200 * US, 200 * US, 200 * US, 4 * MS, 300 * US)
HALF = OperatorTimes(200 * US, 3 * MS, 3 * MS, 3 * MS, 3 * MS)
STRIDED = OperatorTimes(200 * US, 200 * US, 3 * MS, 3 * MS, 3 * MS)
QUIET = CoreWait(1_000 * MS, 10 * MS)


@pytest.fixture
def found(analyze):
    """Judge a run of steps of 10 ms, whose traced steps hold one call of 5 ms each."""

    def judged(*rows, times=NORMAL, wait=QUIET, records=(), timed=True, **start):
        records = [*records, *([wait] if wait else [])]
        run = analyze(
            WORK, trace={"host_calls": list(rows or (ROW,))}, records=records, **{**CPU, **start}
        )
        return outcome("slow-operators", replace(run, operator_times={KEY: times} if timed else {}))

    return judged


def test_a_call_that_denormal_numbers_make_slow_is_a_finding_with_its_saving(found):
    finding = found()
    assert "5.00 ms of each step, 25 times what is normal" in finding.title
    # At the normal rate, the call takes 0.2 ms alone and at most 0.6 ms in training.
    assert span(finding) == (4_400 * US, 4_800 * US)
    assert finding.change == "torch.set_flush_denormal(True)  # at the start of the program"
    assert "It runs at 6.71 GFLOP/s, where 168 are normal for this CPU with 1 thread." in (
        finding.advice
    )
    for excluded in (
        "the type",
        "the strides",
        "waited 1.0% of the time",
        "anomaly detection (off)",
    ):
        assert excluded in finding.advice
    assert finding.confidence == 0.9
    assert finding.places[0].phase == "forward"


def test_what_a_single_thread_waits_for_a_core_is_known(found):
    assert found(wait=CoreWait(1_000 * MS, 590 * MS)) is not None


def test_of_a_call_that_is_nine_times_as_slow_nothing_is_said(found):
    assert found(times=replace_normal(5 * MS // 9)) is None
    assert found(timed=False) is None


def replace_normal(normal_ns):
    return OperatorTimes(normal_ns, normal_ns, normal_ns, 4 * MS, 300 * US)


@pytest.mark.parametrize(
    "noise",
    [
        {"wait": CoreWait(1_000 * MS, 200 * MS), "torch_threads": 2, "cpu_count": 4},
        # Without the wait, a single thread takes 2 ms: 9.75 times as long as usual.
        {"wait": CoreWait(1_000 * MS, 610 * MS)},
        {"wait": None},
        {"rows": ({**ROW, "spread": 4.0},)},
        {"rows": ({**ROW, "spread": None},)},
    ],
)
def test_what_other_programs_may_have_made_slow_is_no_finding(found, noise):
    assert found(*noise.pop("rows", ()), **noise) is None


@pytest.mark.parametrize(
    ("times", "dtypes", "trainer", "change"),
    [
        (HALF, ["c10::Half"] * 2, {"precision": "16-true"}, 'precision="32-true"'),
        (HALF, ["c10::Half"] * 2, {"precision": "32-true"}, "x.float()"),
        (STRIDED, ["float"] * 2, {}, "x.contiguous()"),
    ],
)
def test_a_type_or_strides_are_the_cause_if_they_make_the_call_slow_alone(
    analyze, times, dtypes, trainer, change
):
    call = OperatorInputs("aten::mm", ([64, 512], [512, 512]), tuple(dtypes))
    row = {**ROW, "call": {**CALL, "dtypes": dtypes}}
    # Timed alone, it is as slow: contended cores cannot be the cause.
    run = analyze(
        WORK, trace={"host_calls": [row]}, records=[CoreWait(100, 90)], trainer=trainer, **CPU
    )
    finding = outcome("slow-operators", replace(run, operator_times={call.key: times}))
    assert change in finding.change
    assert "denormal" not in finding.advice
    assert "contended" not in finding.advice


@pytest.mark.parametrize("flush", [False, True])
def test_where_flushing_does_not_help_the_numbers_have_to_be_larger(found, flush):
    times = OperatorTimes(200 * US, 200 * US, 200 * US, 6 * MS, 5 * MS)
    finding = found(times=times, torch_settings={"flush_denormal": flush})
    assert "clamp_min" in finding.change
    assert "does not change this operator" in finding.advice


def test_without_a_cause_the_finding_promises_nothing_for_sure(found):
    for options in (
        {"torch_settings": {"flush_denormal": True}},
        {"times": OperatorTimes(200 * US, 200 * US, 200 * US, 300 * US, 300 * US)},
        # Few of the numbers can be denormal, or the call would take far longer.
        {"times": OperatorTimes(200 * US, 200 * US, 200 * US, 21 * MS, 300 * US)},
    ):
        finding = found(**options)
        assert finding.severity is Severity.INFO
        assert span(finding) == (0, 4_800 * US)
        assert "denormal numbers" in finding.advice.split("Excluded:")[1]
        assert finding.change is None


def test_calls_in_which_anomaly_detection_formats_stacks_are_not_judged(found):
    assert found(records=[AnomalyMode()]) is None


def test_calls_with_one_cause_are_added_up_and_the_line_that_makes_them_is_named(found):
    lines = HostLines(
        100,
        (LineCount("forward", "net.py", 7, "training_step", "h = self.mix(x)", None, None, 90),),
        {"forward": 100},
    )
    finding = found(ROW, {**ROW, "phase": "backward", "total_ns": 6 * MS}, records=[lines])
    assert finding.cause_ns.low == 8 * MS
    assert [(place.file, place.line, place.phase) for place in finding.places] == [
        ("net.py", 7, "forward"),
        (None, None, "backward"),
    ]


def test_a_recorded_stack_names_the_line(found):
    where = {"file": "net.py", "line": 3, "function": "f"}
    (place,) = found({**ROW, "where": where}).places
    assert (place.file, place.line, place.name) == ("net.py", 3, "aten::mm")


def test_bytes_are_told_where_they_are_more_than_the_operations(found):
    assert "GB/s" in found({**ROW, "flop_count": 1_000}).advice


def test_of_a_step_that_denormal_features_slow_down_twenty_times_it_is_the_first_finding(analyze):
    # A case of a public report, as it was measured: steps of 92 ms, of 4.6 ms without such numbers.
    rows = [{**ROW, "phase": phase, "total_ns": 90 * MS, "fastest_ns": 45 * MS} for phase in WORK]
    line = LineCount("forward", "net.py", 16, "training_step", "h = self.mix(x)", None, None, 95)
    run = analyze(
        {"forward": 46 * MS, "backward": 45 * MS, "optimizer_step": MS},
        trace={"host_calls": rows},
        records=[QUIET, HostLines(100, (line,), {"forward": 100})],
        **CPU,
    )
    times = OperatorTimes(650 * US, 650 * US, 650 * US, 46 * MS, 650 * US)
    judged = evaluate_rules(replace(run, operator_times={KEY: times}))
    finding = judged.findings[0]
    assert finding.id == "slow-operators"
    assert "flush_denormal" in finding.change
    assert finding.saving_ns.low <= 87_400 * US <= finding.saving_ns.high
    assert "It runs at 0.746 GFLOP/s, where 51.6 are normal" in finding.advice
    assert not any(other.id == "costly-line" for other in judged.findings)
