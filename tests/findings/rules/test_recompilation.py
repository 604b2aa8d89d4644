from rule_cases import MS, US, WORK, every, span

from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CodePlace, CompileEvent
from lightning_gpuprof.records.schema import StepFlag

SECOND = 1_000 * MS


def test_compilations_after_the_warm_up_are_spread_over_all_steps(evaluate):
    phases = {"forward": every(20, 110 * MS, 10 * MS, first=19)}
    finding = evaluate(phases, flags=every(20, StepFlag.COMPILED, first=19))
    assert finding.evidence["compiled_steps_count"] == 5
    assert span(finding) == (3_600 * US, 6 * MS)


def test_dynamos_own_timing_counts_if_every_step_compiles(evaluate):
    took = [CompileTime(step, 30 * MS) for step in range(100)]
    phases, flags = {"forward": 40 * MS}, [StepFlag.COMPILED] * 100
    finding = evaluate(phases, flags=flags, records=took)
    assert finding.evidence["compiling_ns"] == 30 * MS
    # Without it nothing tells a step from one that compiles nothing.
    assert evaluate(phases, flags=flags) is None


def test_one_compilation_is_not_reported_nor_are_those_of_validation(evaluate):
    assert evaluate(WORK, flags=every(100, StepFlag.COMPILED, first=19)) is None
    flags = every(20, StepFlag.COMPILED | StepFlag.VALIDATION, first=19)
    assert evaluate(WORK, flags=flags) is None


def early(*seconds):
    flags = [StepFlag.WARMUP | StepFlag.COMPILED] * len(seconds) + [0] * (100 - len(seconds))
    took = [CompileTime(at, place * SECOND) for at, place in enumerate(seconds)]
    return {"flags": flags, "records": took}


def test_many_compilations_in_the_warm_up_are_reported(evaluate):
    # A first one and a dynamic one are not.
    assert evaluate(WORK, **early(20, 10)) is None
    finding = evaluate(WORK, **early(20, 10, 10, 10))
    assert "again in 4 of the first steps, 50.0 s together" in finding.title
    assert finding.evidence["compiling_ns"] == 300 * MS
    assert span(finding) == (round(0.9 * 0.8 * 200 * MS), round(1.2 * 300 * MS))


def test_dynamos_reason_and_the_functions_place_are_named(evaluate):
    place = CodePlace("t.py", 7, "f", "def f(x, n):")
    again = CompileEvent("recompilation", "L['n'] == 3", "", place)
    case = early(20, 10, 10, 10)
    finding = evaluate(WORK, flags=case["flags"], records=[*case["records"], again])
    assert "torch's reason: L['n'] == 3." in finding.advice
    assert [(place.file, place.line) for place in finding.places] == [("t.py", 7)]
