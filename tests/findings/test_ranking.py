from rule_cases import made

from lightning_gpuprof.findings.model import Place, Severity
from lightning_gpuprof.findings.ranking import ranked

LINE = Place(file="train.py", line=31)


def order(*findings):
    return [finding.id for finding in ranked(findings)]


MANY = made("host-bound", 60, 100, places=(LINE,))


def test_a_reason_for_most_of_it_comes_before_much_work_at_the_same_line():
    reason = made("repeated-forward", 20, 45, places=(LINE,))
    other = made("slow-logging", 30, 30)
    assert order(MANY, other, reason) == ["slow-logging", "repeated-forward", "host-bound"]


def test_a_reason_for_little_of_it_or_elsewhere_does_not():
    little = made("repeated-forward", 20, 39, places=(LINE,))
    elsewhere = made("repeated-forward", 20, 45, places=(Place(file="train.py", line=3),))
    slight = made("repeated-forward", 20, 45, places=(LINE,), severity=Severity.INFO)
    for finding in (little, elsewhere, slight):
        assert order(MANY, finding) == ["host-bound", "repeated-forward"]


def test_of_two_that_know_no_reason_neither_goes_before_the_other():
    assert order(MANY, made("slow-python", 30, 90, places=(LINE,))) == ["host-bound", "slow-python"]
