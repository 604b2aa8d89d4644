import pytest
from rule_cases import MS, US, WORK, every, span

from lightning_gpuprof.findings.compile_advice import remedy
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CodePlace, CompileEvent, GuardCause, Recompilation
from lightning_gpuprof.records.schema import StepFlag

SECOND = 1_000 * MS
PLACE = CodePlace("t.py", 7, "forward", "def forward(self, x):")
COUNTER = CodePlace("t.py", 9, "forward", "self.calls += 1")


def early(*seconds):
    """Return a run whose first steps compile for so many seconds each."""
    flags = [StepFlag.WARMUP | StepFlag.COMPILED] * len(seconds) + [0] * (100 - len(seconds))
    took = [CompileTime(at, place * SECOND) for at, place in enumerate(seconds)]
    return {"flags": flags, "records": took}


def again(step, cause=GuardCause.ATTRIBUTE, subject="self.calls", *, took=10 * SECOND, **fields):
    reason = f"{subject} == {step - 1}"
    return Recompilation(
        step, PLACE, cause, subject, reason, str(step - 1), COUNTER, took_ns=took, **fields
    )


def with_reasons(*recompilations, seconds=(20, 10, 10, 10)):
    case = early(*seconds)
    return {"flags": case["flags"], "records": [*case["records"], *recompilations]}


def test_compilations_after_the_first_are_spread_over_all_steps(evaluate):
    phases = {"forward": every(20, 110 * MS, 10 * MS, first=19)}
    finding = evaluate(phases, flags=every(20, StepFlag.COMPILED, first=19))
    assert finding.evidence["compiled_steps_count"] == 4
    assert span(finding) == (2_880 * US, 4_800 * US)


def test_dynamos_own_timing_counts_if_every_step_compiles(evaluate):
    took = [CompileTime(step, 30 * MS) for step in range(100)]
    phases, flags = {"forward": 40 * MS}, [StepFlag.COMPILED] * 100
    finding = evaluate(phases, flags=flags, records=took)
    assert finding.evidence["compiling_ns"] == 30 * MS * 99 // 100
    # Without it nothing tells a step from one that compiles nothing.
    assert evaluate(phases, flags=flags) is None


def test_one_more_compilation_is_not_reported_nor_are_those_of_validation(evaluate):
    assert evaluate(WORK, **early(20, 10)) is None
    flags = every(20, StepFlag.COMPILED | StepFlag.VALIDATION, first=19)
    assert evaluate(WORK, flags=flags) is None


def test_time_counts_from_the_first_step_on(evaluate):
    finding = evaluate(WORK, **early(20, 10, 10, 10))
    assert "again in 3 of 100 steps, 10.0 s each" in finding.title
    assert finding.evidence["compiling_ns"] == 300 * MS
    assert span(finding) == (round(0.9 * 0.8 * 300 * MS), round(1.2 * 300 * MS))
    assert "Every run begins with this" in finding.advice


def test_a_counter_becomes_a_tensor_and_dynamic_shapes_are_not_proposed(evaluate):
    finding = evaluate(WORK, **with_reasons(*(again(step) for step in (1, 2, 3))))
    assert finding.evidence["compiled_again_count"] == 3
    assert "`self.calls` is a Python number" in finding.advice
    assert "torch's reason: self.calls == 2." in finding.advice
    assert finding.change == (
        'self.register_buffer("calls", torch.tensor(0))  # instead of self.calls = 0'
    )
    assert [(place.file, place.line) for place in finding.places] == [("t.py", 9)]


def test_sizes_are_made_dynamic(evaluate):
    sizes = [again(step, GuardCause.SIZE, "x.shape[1]") for step in (1, 2, 3)]
    finding = evaluate(WORK, **with_reasons(*sizes))
    assert finding.change == "model = torch.compile(model, dynamic=True)"


def test_a_function_that_torch_gave_up_on_runs_uncompiled_from_there_on(evaluate):
    limited = [again(1), again(2), again(3, took=MS, limit="recompile_limit")]
    finding = evaluate(WORK, **with_reasons(*limited))
    assert (
        finding.title
        == "torch.compile gave up on forward in step 3 after 2 recompilations (20.0 s)"
    )
    assert "Since step 3, forward runs uncompiled." in finding.advice
    assert "A higher torch._dynamo.config.recompile_limit would only" in finding.advice


def test_other_layers_that_the_first_step_compiles_are_no_repetition_unless_torch_gives_up(
    evaluate,
):
    layers = [again(0, subject="self.index") for _ in range(3)]
    assert evaluate(WORK, **with_reasons(*layers, seconds=(20,))) is None
    limited = again(0, subject="self.index", limit="recompile_limit")
    finding = evaluate(WORK, **with_reasons(*layers, limited, seconds=(20,)))
    assert finding.evidence["compiled_again_count"] == 3


def test_layers_of_several_sizes_need_their_versions_and_a_limit_that_holds_them(evaluate):
    sizes = [
        again(0, GuardCause.SIZE, "x.shape[1]"),
        again(5, GuardCause.PARAMETER, "self.lin.bias.shape[0]"),
        again(6, GuardCause.SIZE, "x.shape[1]"),
    ]
    assert evaluate(WORK, **with_reasons(*sizes)) is None
    limited = again(7, GuardCause.SIZE, "x.shape[1]", took=MS, limit="recompile_limit")
    finding = evaluate(WORK, **with_reasons(*sizes, limited))
    assert "raise torch._dynamo.config.recompile_limit" in finding.advice
    assert "dynamic=True" not in f"{finding.advice} {finding.change}"
    assert span(finding) == (0, 0)
    assert (
        finding.title
        == "torch.compile gave up on forward in step 7 after 2 recompilations (20.0 s)"
    )


def test_the_reason_that_took_most_time_is_the_one_to_mend(evaluate):
    few = [again(1, GuardCause.MODE, "", took=SECOND), again(2), again(3)]
    finding = evaluate(WORK, **with_reasons(*few))
    assert "`self.calls`" in finding.advice


def test_collections_after_compilations_belong_to_them(evaluate, judge):
    flags = every(2, StepFlag.COMPILED)
    phases = {"forward": every(2, 40 * MS, 10 * MS), "garbage_collection": every(2, 0, 50 * MS)}
    records = [CompileTime(step, 30 * MS) for step in range(0, 100, 2)]
    finding = evaluate(phases, flags=flags, records=records)
    assert finding.evidence["compiling_ns"] == (49 * 30 * MS + 50 * 50 * MS) // 100
    assert judge("step-time-jitter", phases, flags=flags, records=records) is None
    assert judge("step-time-jitter", phases) is not None


def test_reasons_in_records_of_earlier_versions_are_named(evaluate):
    event = CompileEvent("recompilation", "L['n'] == 3", "", CodePlace("t.py", 7, "f", "def f(x):"))
    case = early(20, 10, 10, 10)
    finding = evaluate(WORK, flags=case["flags"], records=[*case["records"], event])
    assert "torch's reason: L['n'] == 3." in finding.advice
    assert [(place.file, place.line) for place in finding.places] == [("t.py", 7)]


@pytest.mark.parametrize("cause", GuardCause)
def test_dynamic_shapes_are_proposed_for_sizes_alone(cause):
    change = remedy(cause, subject="self.x", reason="a guard")
    assert ("dynamic=True" in (change.change or "")) == (cause is GuardCause.SIZE)
    assert "{" not in change.advice


def test_where_every_step_compiles_their_growth_and_spikes_are_those_of_compiling(evaluate):
    took = [CompileTime(step, (20 + step) * MS) for step in range(100)]
    phases = {"forward": [(30 + step) * MS for step in range(100)]}
    finding = evaluate(phases, flags=[StepFlag.COMPILED] * 100, records=took)
    assert finding.explains == ("memory-growth", "step-time-jitter")
    few = [CompileTime(step, 30 * MS) for step in range(0, 100, 20)]
    flags = every(20, StepFlag.COMPILED)
    finding = evaluate({"forward": every(20, 40 * MS, 10 * MS)}, flags=flags, records=few)
    assert finding.explains == ()
