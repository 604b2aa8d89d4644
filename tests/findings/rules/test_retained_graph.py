import pytest
from rule_cases import MS, US, WORK, op, span

from lightning_gpuprof.records.facts import ProcessMemory

NODE = "autograd::engine::evaluate_function: AddmmBackward0"


def test_nodes_that_run_more_often_than_their_operators(evaluate):
    operators = [op(NODE, 12, 6 * MS), op("aten::addmm", 4, MS)]
    finding = evaluate(WORK, trace={"operators": operators})
    assert finding.evidence["repeated_frac"] == pytest.approx(2 / 3)
    assert finding.evidence["passes_count"] == 3.0
    assert not finding.explains
    assert "loss_a + loss_b" in finding.change
    assert finding.title == "2.67 ms of each step runs the same graph again"


def test_a_repeated_pass_costs_its_nodes_and_its_share_of_the_time_between_them(evaluate):
    # Per step two layers of 1 and 5 ms; the small one runs three times.
    node = op(NODE, 8, 16 * MS) | {"repeated_count": 4, "repeated_ns": 4 * MS}
    gradients = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
    operators = [node, op("aten::addmm", 4, MS), op("aten::ones_like", 6, 0)]
    operators.append(op(gradients, 16, 800 * US))
    model = {"dtypes": {"float32": 4}}
    phases = {"forward": 6 * MS, "backward": 10 * MS}
    finding = evaluate(phases, trace={"operators": operators}, model=model)
    # 2 ms in nodes, and of the 2 ms besides half, for half of the calls are repeated.
    cost = 3 * MS
    assert finding.evidence["repeated_ns"] == pytest.approx(cost, abs=2)
    assert finding.evidence["passes_count"] == 2.0
    # A node of the class ran up to three times: at most two of three passes can go.
    most = 2 * MS + 2 * MS * 2 / 3
    assert finding.cause_ns.high == pytest.approx(most, abs=2)
    assert span(finding) == pytest.approx((0.8 * 2 * MS, 1.2 * most), abs=2)


SIGMOID = "autograd::engine::evaluate_function: SigmoidBackward0"


@pytest.mark.parametrize(
    "operators",
    [
        # As nn.GRU does on a CPU: one sigmoid of the model's own, the others in place.
        [op(SIGMOID, 12, 6 * MS), op("aten::sigmoid", 2, MS), op("aten::sigmoid_", 10, MS)],
        [op(NODE, 12, 6 * MS), op("aten::addmm", 4, MS), op("TanhBackward0Backward0", 4, MS)],
    ],
    ids=["operators in place make nodes too", "gradient penalty"],
)
def test_is_silent_if_a_node_may_belong_to_another_operator(evaluate, operators):
    assert evaluate(WORK, trace={"operators": operators}) is None


def test_a_backward_that_gets_slower(evaluate):
    backward = [MS + step * 100 * US for step in range(80)]
    memory_use = [ProcessMemory(10 * i, 10**9 + i * 10**7) for i in range(10)]
    finding = evaluate({"backward": backward}, steps=80, records=memory_use)
    assert "backward pass grew" in finding.title
    assert finding.explains == ("memory-growth", "growing-step", "slowed-down")
    numbers = {"numbers": [1_000 + 20 * step for step in range(80)]}
    options = {"steps": 80, "records": memory_use}
    assert evaluate({"backward": backward}, columns=numbers, **options) is None  # longer batches
    # Without memory that grows no graph is kept: the machine got slower.
    assert evaluate({"backward": backward}, steps=80) is None
