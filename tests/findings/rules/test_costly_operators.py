from dataclasses import replace

import pytest
from rule_cases import MS, op, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Range, Severity, Where
from lightning_gpuprof.findings.told_once import told_once
from lightning_gpuprof.records.function_calls import (
    FUNCTIONS_NOTE,
    ConstantWork,
    FunctionNotes,
    RebuiltWeights,
    WorkOnData,
)
from lightning_gpuprof.records.module_calls import CallPlace
from lightning_gpuprof.records.schema import Device, Note

PHASES = {"forward": 50 * MS, "backward": 40 * MS, "optimizer_step": 10 * MS}
ENGINE = "autograd::engine::evaluate_function: "
SORT = op("aten::sort", 4, 20 * MS)
"""Of two steps: 10 ms of each one's 100."""


def line(source, count=40, phase="forward", number=7, function="forward"):
    return LineCount(phase, "t.py", number, function, source, None, None, count)


def lines(*seen):
    phases = {one.phase for one in seen}
    counts = {phase: sum(one.count for one in seen if one.phase == phase) for phase in phases}
    return Note(step=9, name=NOTE, value=HostLines(100, seen, counts))


def looked(**seen):
    return Note(step=2, name=FUNCTIONS_NOTE, value=FunctionNotes(**seen))


@pytest.fixture
def said(judge):
    def say(*operators, records=(), phases=PHASES, **options):
        trace = {"operators": list(operators), **options.pop("trace", {})}
        return judge("costly-operators", phases, trace=trace, records=records, **options)

    return say


def test_a_full_sort_is_told_with_its_line_and_its_backward_pass(said):
    seen = lines(line("losses = losses.sort().values"), line("x = self.net(x)", 60, number=3))
    back = op(f"{ENGINE}SortBackward0", 2, 4 * MS)
    (finding,) = said(SORT, back, records=[seen])
    assert finding.evidence["operators_ns"] == 12 * MS
    assert span(finding) == (0, 14_400_000)
    assert finding.severity is Severity.WARNING
    assert "topk" in finding.advice
    assert [(at.file, at.line) for at in finding.where] == [("t.py", 7)]


def test_names_the_operator_where_no_line_is_written_as_a_call_of_it(said):
    seen = lines(line("x = self.net(x)  # sort()"), line("y = x.sort()", 4, number=9))
    (finding,) = said(SORT, records=[seen])
    assert [at.name for at in finding.where] == ["aten::sort"]


def test_what_a_callback_calls_is_not_the_models(said):
    watch = line("torch.linalg.svdvals(weight)", phase="callbacks", function="on_train_batch_end")
    svd = op("aten::_linalg_svd", 4, 60 * MS)
    assert said(svd, records=[lines(watch)]) == ()
    both = lines(watch, line("torch.linalg.svd(x)", number=9))
    assert [at.line for at in said(svd, records=[both])[0].where] == [9]


def test_is_silent_below_a_tenth_of_the_step(said):
    assert said(op("aten::sort", 4, 20 * MS - 2)) == ()
    assert said(op("aten::mm", 4, 90 * MS)) == ()


def test_what_a_model_may_be_about_is_a_warning_at_most(said):
    (finding,) = said(op("aten::_linalg_eigh", 4, 90 * MS))
    assert finding.evidence["operators_ns"] == 45 * MS
    assert finding.severity is Severity.WARNING


def test_what_runs_inside_a_node_is_counted_with_the_node_alone(said):
    inside = op("aten::linalg_solve_triangular", 8, 14 * MS)
    inside |= {"backward_count": 6, "backward_ns": 12 * MS}
    node = op(f"{ENGINE}LinalgCholeskyExBackward0", 2, 20 * MS)
    (finding,) = said(inside, node)
    assert finding.evidence["operators_ns"] == 11 * MS
    assert finding.evidence["backward_ns"] == 10 * MS


@pytest.mark.parametrize(
    "name",
    ["_linalg_eigh", "_linalg_svd", "linalg_cholesky_ex", "linalg_lu_factor_ex", "linalg_qr"],
)
def test_decompositions_of_matrices_are_told(said, name):
    (finding,) = said(op(f"aten::{name}", 4, 60 * MS))
    assert finding.title.startswith("Decomposing matrices")
    assert finding.change is None


def test_a_distribution_with_a_matrix_for_each_row_has_a_change_of_its_own(said):
    seen = lines(line("return MultivariateNormal(means, covariances)", 90), line("x", 10))
    (finding,) = said(op("aten::linalg_cholesky_ex", 4, 60 * MS), records=[seen])
    assert finding.change.startswith("Independent(Normal(mean, spread), 1)")
    # All that its line takes of the forward pass goes, not the factor of 30 ms alone.
    assert span(finding) == (0, 54 * MS)


def test_a_sort_beside_it_does_not_take_its_time(said):
    seen = lines(
        line("return MultivariateNormal(means, covariances)", 60),
        line("losses = losses.sort().values", 40, number=9),
    )
    (finding,) = said(SORT, records=[seen])
    assert span(finding) == (0, 12 * MS)
    assert "topk" in finding.advice


def by_optimizer(name="aten::_linalg_eigh", taken=16 * MS):
    return op(name, 80, taken) | {"update_count": 80, "update_self_ns": taken}


UPDATES = PHASES | {"forward": 20 * MS, "backward": 30 * MS, "optimizer_step": 10 * MS}
MODEL = {
    "dtypes": {"float32": 10},
    "optimizers": [{"class": "Shampoo", "package": "program"}],
}


def test_an_optimizers_decompositions_can_be_made_seldom(said):
    (finding,) = said(by_optimizer(), phases=UPDATES, model=MODEL)
    # Four fifths of 8 ms at the least; at most all of the update.
    assert span(finding) == (5_120_000, 9_600_000)
    assert "in the step of Shampoo" in finding.title
    assert [(at.phase, at.name) for at in finding.where] == [("optimizer_step", "Shampoo")]


def test_what_is_made_of_them_in_the_same_function_goes_too(said):
    seen = lines(
        line("v, w = torch.linalg.eigh(m)", 60, "optimizer_step", 3, "root"),
        line("return w * v @ w.mT", 35, "optimizer_step", 4, "root"),
        line("p.sub_(g)", 5, "optimizer_step", 9, "step"),
    )
    (finding,) = said(by_optimizer(taken=12 * MS), phases=UPDATES, model=MODEL, records=[seen])
    assert finding.saving_ns.high == 9_500_000


def test_an_update_that_is_decomposed_itself_may_not_be_kept(said):
    (finding,) = said(by_optimizer("aten::_linalg_svd"), phases=UPDATES, model=MODEL)
    assert finding.saving_ns.low == 0
    assert "Newton-Schulz" in finding.advice


def test_a_trace_with_the_one_step_in_many_that_decomposes_is_not_taken_for_all(said):
    seldom = [100 * MS if step % 25 == 0 else 1 * MS for step in range(100)]
    phases = UPDATES | {"optimizer_step": seldom}
    assert said(by_optimizer(taken=90 * MS), phases=phases, model=MODEL) == ()


def test_the_loop_over_tensors_steps_back_where_decompositions_are_most_of_it(said, judge):
    rows = [by_optimizer(), op("aten::mul", 100, 1 * MS) | {"update_count": 100}]
    loop = judge("unfused-optimizer", UPDATES, trace={"operators": rows}, model=MODEL)
    (finding,) = said(*rows, phases=UPDATES, model=MODEL)
    stay, back = told_once([loop, finding])
    assert [one.id for one in stay] == ["costly-operators"]
    assert [one.id for one in back] == ["unfused-optimizer"]
    # Of less than half an update the loop may be the rest.
    (less,) = said(by_optimizer(taken=14 * MS), phases=UPDATES | {"optimizer_step": 15 * MS})
    assert less.explains == ()


AT = CallPlace(file="t.py", line=7, function="forward", source="x = x.sort()")


@pytest.mark.parametrize(
    ("seen", "told"),
    [
        ({"constants": (ConstantWork(6 * MS, 1, (AT,)),)}, 0),
        ({"constants": (ConstantWork(1 * MS, 1, (AT,)),)}, 1),
        ({"on_data": (WorkOnData(21 * MS, (AT,)),)}, 0),
        ({"on_data": (WorkOnData(12 * MS, (AT,)),)}, 1),  # too little for work-on-data
    ],
)
def test_is_left_to_a_rule_that_knows_the_reason_at_the_line(said, seen, told):
    records = [lines(line("x = x.sort()")), looked(**seen)]
    assert len(said(SORT, records=records)) == told


def test_what_is_decomposed_anew_of_the_same_weights_is_another_rules(said):
    exponent = op("aten::linalg_matrix_exp", 4, 40 * MS)
    again = looked(rebuilt=RebuiltWeights(12, 15 * MS, (AT,)))
    assert said(exponent, records=[again]) == ()
    assert len(said(SORT, records=[again])) == 1


def test_on_a_gpu_the_devices_time_counts(said):
    row = op("aten::sort", 4, 2 * MS) | {"device_total_ns": 30 * MS}
    (finding,) = said(row, device=Device(type="cuda"))
    assert finding.evidence["operators_ns"] == 15 * MS
    assert finding.confidence == 0.5
    assert finding.explains == ()


def test_on_a_gpu_the_kernel_that_is_most_of_a_step_is_told_once(said, judge):
    lots = op("aten::sort", 4, 2 * MS) | {"device_total_ns": 120 * MS}
    one_line = lines(line("x.sort()"))
    (finding,) = said(lots, device=Device(type="cuda"), records=[one_line])
    kernel = replace(
        finding, id="dominant-kernel", saving_ns=Range(0, 0), where=(Where(kernel="sort"),)
    )
    assert [one.id for one in told_once([kernel, finding])[0]] == ["costly-operators"]


def test_abstains_without_a_trace(judge):
    assert isinstance(judge("costly-operators", PHASES), Abstained)
