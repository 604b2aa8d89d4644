import pytest
from made_records import memory
from rule_cases import made, op

from lightning_gpuprof.findings.engine import evaluate_rules, make_plan
from lightning_gpuprof.findings.model import Abstained, Horizon, Place, Severity
from lightning_gpuprof.findings.question_figures import FIGURES, suggested_workers
from lightning_gpuprof.findings.questions import (
    State,
    answer_questions,
    first_to_look_at,
    questions,
)
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.findings.usual_advice import USUAL, not_worth_it
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Device, Loader

MS = 1_000_000
GPU = Device(type="cuda")


def answers_without_findings(run):
    return answer_questions(run, findings=())


def first_question(run):
    return first_to_look_at(answers_without_findings(run))


def traced(**document):
    return {"trace": {"gpu": {"span_ns": 100, "busy_ns": 40}, **document}, "device": GPU}


@pytest.mark.parametrize(
    ("phases", "first"),
    [
        ({"data_wait": 6 * MS, "forward": 4 * MS}, "data-share"),
        ({"forward": 6 * MS, "backward": 4 * MS}, "forward-share"),
        ({"forward": 4 * MS, "backward": 6 * MS}, "backward-share"),
        ({"data_wait": 3 * MS, "forward": 3 * MS, "backward": 4 * MS}, "balanced"),
        ({"clip_gradients": 6 * MS, "forward": 4 * MS}, "clip-gradients-share"),
        ({"optimizer_step": 6 * MS, "forward": 4 * MS}, "optimizer-step-share"),
        ({"other": 6 * MS, "forward": 4 * MS}, "other-share"),
        ({"validation": 6 * MS, "forward": 4 * MS}, "validation-share"),
    ],
)
def test_a_phase_above_half_of_the_step_says_where_to_look_first(analyze, phases, first):
    assert first_question(analyze(phases)).id == first


def test_where_no_phase_is_large_the_findings_that_are_worth_a_change_come_first(analyze):
    run = analyze({"data_wait": 3 * MS, "forward": 3 * MS, "callbacks": 4 * MS})
    findings = [
        made("slow-callback", MS, 4 * MS),
        made("slow-logging", 0, 1, severity=Severity.INFO),
    ]
    first = first_to_look_at(answer_questions(run, findings=findings))
    assert (first.id, first.findings) == ("balanced", ("slow-callback",))
    assert first.next == "the finding slow-callback"


@pytest.mark.parametrize("children", [["model.embed", "model.head"], None])
def test_a_long_forward_pass_can_be_timed_by_the_models_own_parts(analyze, children):
    phases = {"forward": 6 * MS, "backward": 4 * MS}
    answer = first_to_look_at(
        answers_without_findings(analyze(phases, model={"children": children} if children else {}))
    ).next
    assert f"GpuProfCallback(modules={children or '[...]'})" in answer


def test_a_few_steps_that_take_most_of_the_time_come_before_the_phase_they_are_in(analyze):
    few = [200 * MS if step in (30, 41, 77) else MS for step in range(100)]
    assert first_question(analyze({"forward": few})).id == "slow-steps-share"
    assert first_question(analyze({"data_wait": few, "forward": MS})).id == "data-share"


def test_one_kernel_that_is_most_of_the_step_is_where_to_look_first(analyze):
    def kernel(name, category, total_ns):
        return {"name": name, "category": category, "total_ns": total_ns}

    kernels = [kernel("pooled<float>", "other", 7 * MS), kernel("pooled<half>", "other", 5 * MS)]
    phases = {"forward": 6 * MS, "backward": 4 * MS}
    assert first_question(analyze(phases, **traced(kernels=kernels))).id == "top-kernel"
    for few in (kernels[:1], [kernel("gemm_nn", "gemm", 15 * MS)]):
        assert first_question(analyze(phases, **traced(kernels=few))).id == "forward-share"


def test_without_steps_every_question_says_what_it_lacks(analyze):
    answers = answers_without_findings(analyze({}, steps=0))
    assert first_to_look_at(answers) is None
    assert {answer.state for answer in answers} == {State.NOT_MEASURED}
    assert all(answer.next for answer in answers)


def test_the_questions_of_a_gpu_trace_are_answered_from_it(analyze):
    run = analyze(
        {"forward": MS},
        **traced(
            gemm_frac=0.5,
            sync_ns=6,
            sync_frac=0.06,
            idle=[{"cause": "launch_latency", "total_ns": 10, "count": 1}],
            operators=[op("aten::copy_", 2, 30), op("aten::mm", 2, 70)],
            roofline=[{"bound": "memory", "total_ns": 8}, {"bound": "compute", "total_ns": 2}],
        ),
    )
    answers = {answer.id: answer for answer in answers_without_findings(run)}
    looked_at = {name for name, answer in answers.items() if answer.state is State.LOOK}
    assert looked_at >= {"gemm-share", "sync-share", "launch-gaps", "transfers", "roofline"}
    assert answers["sync-share"].value == pytest.approx(0.06)
    assert answers["host-over-device"].value == pytest.approx(2.5)
    assert answers["roofline"].value == pytest.approx(0.8)


ENGINE = "autograd::engine::evaluate_function: MmBackward0"


@pytest.mark.parametrize(
    ("name", "document", "value"),
    [
        ("launch-overhead", {"operators": [("aten::add", 4_000)]}, 2_000),
        ("launch-overhead", {"operators": [("aten::add", 2_000)]}, None),
        ("transfers", {"operators": [("aten::copy_", 2), ("aten::mm", 8)]}, 0.2),
        ("transfers", {"operators": [("aten::to", 1), ("aten::mm", 9)]}, None),
        ("host-over-device", {"operators": [("aten::mm", 80)]}, 2),
        ("host-over-device", {"operators": [("aten::mm", 60)]}, None),
        ("gemm-only", {"gemm_frac": 0.95}, 0.95),
        ("gemm-only", {"gemm_frac": 0.7}, None),
        ("precision", {"tensor_core_frac": 0.2}, 0.2),
        ("precision", {"tensor_core_frac": 0.6}, None),
        ("launch-gaps", {"idle": [{"cause": "kernel_gap", "total_ns": 2}]}, 0.02),
        ("launch-gaps", {"idle": [{"cause": "kernel_gap", "total_ns": 1}]}, None),
        ("occupancy", {"kernels": [("elementwise", 3, 0.2), ("gemm", 7, 0.1)]}, 0.3),
        ("occupancy", {"kernels": [("elementwise", 3, 0.6), ("gemm", 7, 0.1)]}, None),
        ("retained-graph", {"operators": [("aten::mm", 4), (ENGINE, 8)]}, 0.5),
        ("retained-graph", {"operators": [("aten::mm", 4), (ENGINE, 4)]}, None),
    ],
)
def test_a_question_of_a_trace_is_looked_at_beyond_its_limit(analyze, name, document, value):
    kernels, operators = document.get("kernels", ()), document.get("operators", ())
    names = "category total_ns occupancy_frac".split()
    rows = {
        "kernels": [{"name": "k", **dict(zip(names, kernel, strict=True))} for kernel in kernels],
        "operators": [op(operator, count, count) for operator, count in operators],
    }
    run = analyze({"forward": MS}, **traced(**document | rows))
    answers = {answer.id: answer for answer in answers_without_findings(run)}
    assert answers[name].state is (State.OK if value is None else State.LOOK)
    assert value is None or answers[name].value == pytest.approx(value)


@pytest.mark.parametrize(("peak", "asked"), [(95, "memory-full"), (30, "vram"), (80, None)])
def test_memory_may_be_too_full_or_too_empty(analyze, peak, asked):
    seen = memory(peak, total_bytes=100)
    answers = answers_without_findings(analyze({"forward": MS}, records=[seen], device=GPU))
    asks = [
        answer.id for answer in answers if answer.view == "memory" and answer.state is State.LOOK
    ]
    assert asks == ([asked] if asked else [])


@pytest.mark.parametrize(
    ("workers", "wait_ms", "cores", "suggested"),
    [
        (0, 6, 4, 2),
        (0, 0.1, 4, 0),
        (0, 0.3, 4, 0),
        (2, 0, 4, 2),
        (8, 3, 4, 4),
        (1, 6, 8, 3),
        (0, 6, 1, 0),
    ],
)
def test_fewer_workers_are_suggested_as_well_as_more(analyze, workers, wait_ms, cores, suggested):
    run = analyze(
        {"data_wait": int(wait_ms * MS), "forward": 4 * MS},
        loader=Loader(num_workers=workers),
        cpu_count=cores,
    )
    assert suggested_workers(run) == suggested


def test_every_phase_has_a_question_of_its_own_or_shares_one(analyze):
    shared = {"host_to_device": "data-share", "data_wait": "data-share"}
    for phase in Phase:
        answer = first_question(analyze({phase.value: MS}))
        usual = f"{phase.value.replace('_', '-')}-share"
        assert answer.id == shared.get(phase.value, usual)


def test_a_plan_keeps_the_rank_of_findings_and_says_what_each_change_takes(analyze):
    run = analyze(
        {"data_wait": 3 * MS, "forward": 3 * MS, "optimizer_step": 4 * MS, "logging": 2 * MS},
        loader=Loader(num_workers=0),
        model={"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW"}]},
    )
    findings = evaluate_rules(run).findings
    plan = make_plan(findings)
    assert [finding for finding, _ in plan] == list(findings)
    assert plan[0][1].horizon in set(Horizon)
    assert all(effort.difficulty and effort.risk for _, effort in plan)


def answer_of(question_id, run, findings, abstained=()):
    answers = answer_questions(run, findings, abstained)
    return next(answer for answer in answers if answer.id == question_id)


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.id)
def test_a_question_names_a_figure_and_findings_that_exist(question):
    assert question.figure in FIGURES
    assert {*question.findings, *question.findings_in_phases} <= set(rules())
    assert bool(question.phases) == bool(question.findings_in_phases)


def test_a_question_that_a_finding_answers_leads_to_it_and_advises_nothing_itself(analyze):
    run = analyze(
        {"data_wait": 6 * MS, "forward": 4 * MS}, loader=Loader(num_workers=0), cpu_count=8
    )
    findings = evaluate_rules(run).findings
    assert [finding.id for finding in findings] == ["data-wait"]
    for question_id in ("data-share", "workers"):
        answer = answer_of(question_id, run, findings)
        assert answer.findings == ("data-wait",)
        assert answer.next == "the finding data-wait"


def test_no_question_advises_workers_where_the_finding_says_to_leave_them_at_0(analyze):
    loader = Loader(num_workers=0, dataset_kind="map", shares="self.rows")
    run = analyze({"data_wait": 6 * MS, "forward": 4 * MS}, loader=loader, cpu_count=8)
    (finding,) = evaluate_rules(run).findings
    assert "Leave num_workers at 0" in finding.advice
    answers = answer_questions(run, [finding])
    assert not any("num_workers" in answer.next for answer in answers if answer.state is State.LOOK)
    assert first_to_look_at(answers).next == "the finding data-wait"


def test_without_a_finding_no_question_names_a_change_that_rules_propose(analyze):
    changes = ("num_workers", "pin_memory", "fused=True", "bf16", "torch.compile", "log_every_n")
    for question in questions():
        if question.findings and question.id != "workers":
            assert not any(change in question.look for change in changes), question.id


def test_a_question_about_a_phase_is_answered_only_by_findings_in_that_phase(analyze):
    run = analyze({"clip_gradients": 6 * MS, "forward": 4 * MS})
    elsewhere = made("slow-python", 1, 2, places=(Place(file="t.py", line=3, phase="forward"),))
    there = made("slow-python", 1, 2, places=(Place(file="t.py", line=9, phase="clip_gradients"),))
    assert answer_of("clip-gradients-share", run, [elsewhere]).findings == ()
    assert answer_of("clip-gradients-share", run, [elsewhere, there]).findings == ("slow-python",)


def test_a_question_whose_finding_is_suppressed_leads_to_the_one_that_suppresses_it(analyze):
    run = analyze({"other": 6 * MS, "forward": 4 * MS, "validation": 20 * MS})
    often = made("slow-callback", 1, 2)
    behind = Abstained("frequent-validation", "it is covered", covered_by="slow-callback")
    assert answer_of("validation-share", run, [often]).findings == ()
    assert answer_of("validation-share", run, [often], [behind]).findings == ("slow-callback",)


def test_memory_that_grows_is_no_reason_for_a_larger_batch(analyze):
    run = analyze({"forward": MS}, records=[memory(30, total_bytes=100)], device=GPU)
    growing = made("memory-growth", 1, 2)
    assert answer_of("vram", run, [growing]).next == "the finding memory-growth"


def test_several_findings_answer_a_question_in_their_order(analyze):
    run = analyze({"data_wait": 6 * MS, "forward": 4 * MS})
    findings = [made("worker-startup", 1, 2), made("data-wait", 1, 2), made("worker-startup", 0, 1)]
    assert (
        answer_of("data-share", run, findings).next == "the findings worker-startup and data-wait"
    )


def test_advice_that_a_finding_gives_is_not_called_worthless(analyze):
    run = analyze({"forward": 10 * MS, "logging": MS // 50, "optimizer_step": MS // 20})
    assert set(not_worth_it(run, [])) == {"less logging", "fused optimizer"}
    assert set(not_worth_it(run, [made("slow-logging", 1, 2)])) == {"fused optimizer"}
    info = made("slow-logging", 0, 0, severity=Severity.INFO)
    assert set(not_worth_it(run, [info])) == {"less logging", "fused optimizer"}
    little = made("slow-logging", 0, 1, severity=Severity.INFO)
    assert set(not_worth_it(run, [little])) == {"fused optimizer"}
    assert {usual.finding for usual in USUAL} <= set(rules())
