from lightning_gpuprof.findings.model import Finding, Range, Severity, Where
from lightning_gpuprof.findings.ranking import ranked

LINE = Where(file="train.py", line=31)


def finding(finding_id, low, high, *, where=(LINE,), severity=Severity.WARNING):
    return Finding(
        id=finding_id,
        severity=severity,
        title="",
        advice="",
        evidence={},
        saving_ns=Range(low, high),
        confidence=1.0,
        where=where,
    )


def order(*found):
    return [one.id for one in ranked(found)]


MANY = finding("host-bound", 60, 100)


def test_a_reason_for_most_of_it_comes_before_much_work_at_the_same_line():
    reason = finding("repeated-forward", 20, 45)
    other = finding("slow-logging", 30, 30, where=())
    assert order(MANY, other, reason) == ["slow-logging", "repeated-forward", "host-bound"]


def test_a_reason_for_little_of_it_or_elsewhere_does_not():
    little = finding("repeated-forward", 20, 39)
    elsewhere = finding("repeated-forward", 20, 45, where=(Where(file="train.py", line=3),))
    slight = finding("repeated-forward", 20, 45, severity=Severity.INFO)
    for one in (little, elsewhere, slight):
        assert order(MANY, one) == ["host-bound", "repeated-forward"]


def test_of_two_that_know_no_reason_neither_goes_before_the_other():
    assert order(MANY, finding("slow-python", 30, 90)) == ["host-bound", "slow-python"]
