import re

import numpy as np
import pytest
from rule_cases import MS, US, span

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.lines import HostLines, LineCount

STEPS = 400
GROWN = 20 * US * (np.arange(STEPS) - 40).clip(min=0)
ALIKE = {"backward": 4 * MS, "optimizer_step": MS}


def sampled(source):
    lines = (
        LineCount("forward", "train.py", 9, "forward", "x = self.net(x)", None, "model", 60),
        LineCount("forward", "train.py", 35, "add", source, None, None, 20),
    )
    return {"records": [HostLines(100, lines, {"forward": 100})]}


def test_a_phase_that_grows_is_named_with_the_step_since_when(evaluate):
    finding = evaluate({"forward": 5 * MS + GROWN, **ALIKE}, steps=STEPS)
    assert re.fullmatch(
        r"Steps grow by (19|20).\d µs each since step \d\d, mostly in forward", finding.title
    )
    assert finding.evidence["since_step_count"] == pytest.approx(40, abs=12)
    assert [place.phase for place in finding.places] == ["forward"]
    low, high = span(finding)
    assert low == 0
    assert high == pytest.approx(GROWN[-1], rel=0.05)


def test_the_line_that_appends_makes_the_cost_so_far_a_saving(evaluate):
    grows = {"forward": 5 * MS + GROWN, **ALIKE}
    finding = evaluate(grows, steps=STEPS, **sampled("self.seen.append(loss)"))
    assert (finding.places[0].file, finding.places[0].line) == ("train.py", 35)
    assert "train.py:35" in finding.advice
    assert span(finding)[0] == pytest.approx(GROWN.mean(), rel=0.1)


def test_batches_that_grow_claim_no_time(evaluate):
    backward = 8 * MS + 8 * GROWN // 5
    finding = evaluate(
        {"forward": 5 * MS + GROWN, "backward": backward, "optimizer_step": MS}, steps=STEPS
    )
    assert "larger batches" in finding.advice
    assert (finding.severity, span(finding)) == (Severity.INFO, (0, 0))


def test_a_machine_that_gets_slower_is_nobodys_fault(evaluate):
    pace = 1 + np.arange(STEPS) / STEPS
    slower = {"forward": 5 * MS * pace, "backward": 4 * MS * pace, "optimizer_step": MS * pace}
    result = evaluate(slower, steps=STEPS)
    assert isinstance(result, Abstained)
    assert "the machine gets slower" in result.reason


def test_a_change_at_once_and_a_steady_run_have_no_finding(evaluate):
    assert evaluate({"forward": 5 * MS, **ALIKE}, steps=STEPS) is None
    at_once = np.where(np.arange(STEPS) < 200, 5 * MS, 9 * MS)
    assert evaluate({"forward": at_once, **ALIKE}, steps=STEPS) is None
