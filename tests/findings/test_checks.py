import pytest
from made_records import memory
from rule_cases import op

from lightning_gpuprof.findings.check_figures import suggested_workers
from lightning_gpuprof.findings.checks import State, focus, run_checks
from lightning_gpuprof.findings.engine import evaluate_rules, make_plan
from lightning_gpuprof.findings.model import Horizon
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Device, Loader

MS = 1_000_000
GPU = Device(type="cuda")


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
def test_the_phase_above_half_says_where_to_look_and_else_that_none_does(analyze, phases, first):
    assert focus(run_checks(analyze(phases))).id == first


@pytest.mark.parametrize("children", [["model.embed", "model.head"], None])
def test_a_long_forward_pass_is_to_be_timed_by_the_models_own_parts(analyze, children):
    phases = {"forward": 6 * MS, "backward": 4 * MS}
    said = focus(run_checks(analyze(phases, model={"children": children} if children else {}))).next
    assert f"GpuProfCallback(modules={children or '[...]'})" in said


def test_a_few_steps_that_take_most_of_the_time_come_before_the_phase_they_are_in(analyze):
    few = [200 * MS if step in (30, 41, 77) else MS for step in range(100)]
    assert focus(run_checks(analyze({"forward": few}))).id == "slow-steps-share"
    assert focus(run_checks(analyze({"data_wait": few, "forward": MS}))).id == "data-share"


def test_one_kernel_that_is_most_of_the_step_is_where_to_look_first(analyze):
    def kernel(name, category, total_ns):
        return {"name": name, "category": category, "total_ns": total_ns}

    kernels = [kernel("pooled<float>", "other", 7 * MS), kernel("pooled<half>", "other", 5 * MS)]
    phases = {"forward": 6 * MS, "backward": 4 * MS}
    assert focus(run_checks(analyze(phases, **traced(kernels=kernels)))).id == "top-kernel"
    for few in (kernels[:1], [kernel("gemm_nn", "gemm", 15 * MS)]):
        assert focus(run_checks(analyze(phases, **traced(kernels=few)))).id == "forward-share"


def test_without_steps_nothing_is_said_and_every_question_tells_what_it_lacks(analyze):
    checks = run_checks(analyze({}, steps=0))
    assert focus(checks) is None
    assert {check.state for check in checks} == {State.NOT_MEASURED}
    assert all(check.next for check in checks)


def test_the_questions_of_a_gpu_trace_are_answered_from_it(analyze):
    run = analyze(
        {"forward": MS},
        **traced(
            gemm_frac=0.5,
            sync_ns=6,
            idle=[{"cause": "launch_latency", "total_ns": 10, "count": 1}],
            operators=[op("aten::copy_", 2, 30), op("aten::mm", 2, 70)],
            roofline=[{"bound": "memory", "total_ns": 8}, {"bound": "compute", "total_ns": 2}],
        ),
    )
    found = {check.id: check for check in run_checks(run)}
    looked_at = {name for name, check in found.items() if check.state is State.LOOK}
    assert looked_at >= {"gemm-share", "sync-share", "launch-gaps", "transfers", "roofline"}
    assert found["sync-share"].value == pytest.approx(0.06)
    assert found["host-over-device"].value == pytest.approx(2.5)
    assert found["roofline"].value == pytest.approx(0.8)


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
        "kernels": [{"name": "k", **dict(zip(names, one, strict=True))} for one in kernels],
        "operators": [op(one, count, count) for one, count in operators],
    }
    run = analyze({"forward": MS}, **traced(**document | rows))
    found = {one.id: one for one in run_checks(run)}
    assert found[name].state is (State.OK if value is None else State.LOOK)
    assert value is None or found[name].value == pytest.approx(value)


@pytest.mark.parametrize(("peak", "asked"), [(95, "memory-full"), (30, "vram"), (80, None)])
def test_memory_may_be_too_full_or_too_empty(analyze, peak, asked):
    seen = memory(peak, total_bytes=100)
    found = run_checks(analyze({"forward": MS}, records=[seen], device=GPU))
    asks = [one.id for one in found if one.view == "memory" and one.state is State.LOOK]
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
        said = focus(run_checks(analyze({phase.value: MS})))
        usual = f"{phase.value.replace('_', '-')}-share"
        assert said.id == shared.get(phase.value, usual)


def test_a_plan_begins_with_quick_wins_and_keeps_their_rank(analyze):
    run = analyze(
        {"data_wait": 3 * MS, "forward": 3 * MS, "optimizer_step": 4 * MS, "logging": 2 * MS},
        loader=Loader(num_workers=0),
        model={"dtypes": {"float32": 100}, "optimizers": [{"class": "AdamW"}]},
    )
    found = evaluate_rules(run).found
    plan = make_plan(found)
    assert {finding.id for finding, _ in plan} == {finding.id for finding in found}
    quick = [finding for finding, effort in plan if effort.horizon is Horizon.QUICK]
    assert quick == [finding for finding, _ in plan][: len(quick)]
    assert all(effort.difficulty and effort.risk for _, effort in plan)
