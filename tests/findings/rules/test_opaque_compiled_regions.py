import pytest
from rule_cases import MS, WORK, op, span


def test_opaque_regions_are_a_fact(evaluate):
    operators = [op("Torch-Compiled Region: 0/0", 2, 9 * MS), op("aten::mm", 2, MS)]
    finding = evaluate(WORK, trace={"operators": operators})
    assert finding.evidence["opaque_frac"] == pytest.approx(0.9)
    assert span(finding) == (0, 0)
