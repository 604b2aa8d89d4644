import pytest
from rule_cases import MS, US, WORK, op, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.lines import HostLines, LineCount

ON = {"detect_anomaly": True}


def test_costs_by_the_nodes_of_the_graph(evaluate):
    name = "autograd::engine::evaluate_function: TanhBackward0"
    finding = evaluate(WORK, trace={"operators": [op(name, 40, MS)]}, trainer=ON)
    assert span(finding) == (1_600 * US, 4 * MS)
    assert finding.change == "Trainer(..., detect_anomaly=False)"


def test_samples_of_operators_may_be_formatting_that_held_the_lock(evaluate):
    kinds = {"traceback": 60, None: 15, "torch": 5, "model": 10, "python": 10}
    lines = tuple(
        LineCount("forward", "m.py", at, "forward", "x = f(x)", None, kind, count)
        for at, (kind, count) in enumerate(kinds.items())
    )
    note = HostLines(100, lines, {"forward": 100})
    saving = evaluate(WORK, trainer=ON, records=[note]).saving_ns
    error = [2 * (share * (1 - share) / 100) ** 0.5 for share in (0.6, 0.9)]
    # The least is what was seen, the most all that was not at work in Python: of 6 ms.
    assert saving.low == pytest.approx((0.6 - error[0]) * 6 * MS, rel=0.01)
    assert saving.high == pytest.approx((0.9 + error[1]) * 6 * MS, rel=0.01)


def test_suppresses_what_other_rules_find_about_small_operators(judge):
    for rule in ("host-bound", "host-sync"):
        assert judge(rule, WORK, trainer=ON, trace={"operators": []}) is None


def test_is_at_least_a_warning_and_silent_when_off(evaluate):
    on = evaluate(WORK, trainer=ON)
    assert on.severity is not Severity.INFO
    assert evaluate(WORK, trainer={"detect_anomaly": False}) is None


def test_its_searches_are_not_reads_of_the_program_even_if_it_was_not_recorded(evaluate, judge):
    search = op("aten::_is_any_true", 200, MS) | {"backward_count": 200}
    read = op("aten::item", 200, MS) | {"backward_count": 200}
    for rule in ("host-sync", "host-bound"):
        assert judge(rule, WORK, trace={"operators": [search, read]}) is None
    assert evaluate(WORK, trace={"operators": [search]}) is not None
    finding = judge("host-sync", WORK, trace={"operators": [read]})
    assert finding.evidence["reads_per_step_count"] == 100
