import pytest
from rule_cases import MS, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import StageWork

WORK = {"forward": 20 * MS}
"""For 100 steps, which take 2 s."""
S = 1_000 * MS


def made(*before_ns, hooks=("prepare_data", "setup")):
    return [StageWork("Texts", hooks, before_ns)]


def test_what_is_made_before_a_later_stage_is_made_again(evaluate):
    finding = evaluate(WORK, records=made(2 * S, S, S), stage="test")
    assert finding.title == "1.00 s pass before test begins, with Texts.setup"
    assert "as before each of 3 stages, 4.00 s in all" in finding.advice
    assert "since the stage before" in finding.advice
    assert finding.severity is Severity.CRITICAL
    assert span(finding) == (5 * MS, 10 * MS)


def test_before_the_first_stage_it_may_be_the_programs_own_work(evaluate):
    finding = evaluate(WORK, records=made(S, hooks=("prepare_data",)))
    assert finding.severity is Severity.INFO
    assert "since GpuProfCallback was made" in finding.advice
    assert finding.change.startswith("def prepare_data(self):")
    assert span(finding) == (0, 10 * MS)


@pytest.mark.parametrize("before_ns", [S - 1, S // 2])
def test_short_waits_are_silent(evaluate, before_ns):
    assert evaluate(WORK, records=made(before_ns)) is None


def test_a_small_share_of_a_long_stage_is_silent(evaluate):
    assert evaluate({"forward": 100 * MS}, records=made(2 * S)) is None
