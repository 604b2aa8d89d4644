import pytest
from rule_cases import MS, WORK, op, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note
from lightning_gpuprof.records.torch_modes import MODES_NOTE, TorchMode

PLACE = CallPlace("train.py", 50, "", "self.counter = FlopCounterMode(display=False)")
COUNTER = TorchMode("FlopCounterMode", True, "torch", True, True, PLACE)
SPY = TorchMode("Spy", False, "", True, False)
CALLS = {
    "call_count": 1_000,
    "own_ns": 4 * MS,
    "beside_least_ns": 1 * MS,
    "beside_most_ns": 2 * MS,
}
TRACE = {"operators": [op("aten::mm", 20, 8 * MS)], "mode_calls": CALLS}
"""Of two steps: each has 500 calls of modes, 2 ms of their own and at most 1 ms beside."""


@pytest.fixture
def look(judge):
    def looked(*modes, notes=(), **options):
        records = [Note(step=1, name=MODES_NOTE, value=modes), *notes]
        return judge("operators-through-python", WORK, records=records, **options)

    return looked


def test_a_counter_that_stays_open_is_named_with_its_line_and_what_its_calls_take(look):
    (finding,) = look(COUNTER, trace=TRACE)
    assert finding.title == (
        "FlopCounterMode is open in every step: 500 operators of it go through Python, which costs "
        "up to 5.50 ms"
    )
    assert (finding.where[0].file, finding.where[0].line) == ("train.py", 50)
    assert span(finding) == (2_500_000, 5_500_000)
    assert finding.severity is Severity.CRITICAL
    assert "use again what it told" in finding.advice


def test_times_are_those_of_steps_without_the_profiler(look):
    slowed = {**TRACE, "steps": [{"dur_ns": 20 * MS}] * 2}
    (finding,) = look(COUNTER, trace=slowed)
    assert span(finding) == (1_250_000, 2_750_000)


def test_of_the_programs_own_it_is_not_known_whether_it_only_looks(look):
    (finding,) = look(TorchMode("Finite", True, "", True, False), trace=TRACE)
    assert finding.advice.startswith("If it only looks on")
    assert finding.where[0].name == "Finite"
    assert [at.phase for at in finding.where[1:]] == ["forward"]


def test_a_mode_that_was_shut_before_the_trace_costs_nothing(look):
    trace = {**TRACE, "mode_calls": None}
    assert look(COUNTER, trace=trace, versions={"torch": "2.13.0+cpu"}) == ()


def test_a_torch_that_records_no_calls_of_modes_leaves_the_cost_open(look):
    trace = {**TRACE, "mode_calls": None}
    (finding,) = look(COUNTER, trace=trace, versions={"torch": "2.4.1"})
    assert finding.saving_ns.low == 0
    assert finding.saving_ns.high > 0


def test_on_a_gpu_the_host_may_be_ahead(look):
    (finding,) = look(COUNTER, trace=TRACE, device=Device(type="cuda"))
    assert finding.saving_ns.low == 0


def test_without_a_trace_the_cost_is_not_known(look):
    (finding,) = look(COUNTER)
    assert span(finding) == (0, 5 * MS)


def sampled(*counts):
    """Samples of a step, 100 in all, by the text of the mode's line."""
    rows = tuple(
        LineCount("forward", "spy.py", i, "__torch_function__", source, None, None, count)
        for i, (source, count) in enumerate(counts)
    )
    return Note(step=9, name=NOTE, value=HostLines(100, rows, {"forward": 100}))


def test_a_mode_of_functions_takes_what_samples_saw_in_it_and_python_at_most(look):
    note = sampled(("out = func(*args, **kwargs)", 30), ("low = out.min()", 36))
    (finding,) = look(SPY, notes=[note], trace={"operators": TRACE["operators"]})
    # 36 of 100 samples, give or take two errors of 4.8; 6 of 10 ms are in no operator.
    assert span(finding) == (2_640_000, 10_000_000)
    assert all(at.phase is None for at in finding.where)


def test_lines_that_call_the_function_on_are_no_cost_of_the_mode(look):
    (finding,) = look(SPY, notes=[sampled(("return func(*args, **(kwargs or {}))", 90))])
    assert span(finding) == (0, 5 * MS)


def test_a_run_without_such_a_mode_has_nothing_to_report(judge):
    assert judge("operators-through-python", WORK, trace=TRACE) == ()


def test_without_steps_it_abstains(judge):
    assert isinstance(judge("operators-through-python", {}, steps=0), Abstained)
