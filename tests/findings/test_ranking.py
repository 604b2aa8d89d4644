from rule_cases import made

from lightning_gpuprof.findings.model import Place, Severity
from lightning_gpuprof.findings.ranking import proposed, ranked

LINE = Place(file="train.py", line=31)


def order(*findings):
    return [finding.id for finding in ranked(findings)]


def test_the_largest_saving_that_can_be_counted_on_comes_first_whatever_its_severity():
    info = made("slow-logging", 420, 650, severity=Severity.INFO)
    warning = made("host-sync", 40, 240)
    critical = made("recompilation", 900, 1_100, severity=Severity.CRITICAL)
    unsure = made("data-wait", 0, 1_000, confidence=0.5, severity=Severity.INFO)
    assert order(warning, unsure, info, critical) == [
        "recompilation",
        "slow-logging",
        "data-wait",
        "host-sync",
    ]


def test_findings_that_claim_no_time_come_last_and_the_costly_line_after_them():
    timed = made("slow-logging", 1, 2, severity=Severity.INFO)
    line = made("costly-line", 0, 0, severity=Severity.INFO)
    full = made("vram-pressure", 0, 0, confidence=0.5)
    fact = made("unused-vram", 0, 0, severity=Severity.INFO)
    assert order(line, fact, full, timed) == [
        "slow-logging",
        "vram-pressure",
        "unused-vram",
        "costly-line",
    ]


def test_memory_that_fills_up_comes_before_small_savings():
    step = {"step_ns": 1_000}
    large = made("data-wait", 300, 300, evidence=step)
    some = made("slow-logging", 150, 150, evidence=step)
    small = made("host-sync", 90, 90, evidence=step)
    grows = made("worker-memory", 0, 0, matters=True)
    ends = made("memory-growth", 0, 0, matters=True, severity=Severity.CRITICAL)
    little = made("kept-predictions", 0, 0, matters=True, severity=Severity.INFO)
    assert order(little, grows, small, some, ends, large) == [
        "data-wait",
        "memory-growth",
        "slow-logging",
        "worker-memory",
        "host-sync",
        "kept-predictions",
    ]


def test_the_first_that_is_worth_a_change_is_proposed():
    info = made("slow-logging", 420, 650, severity=Severity.INFO)
    warning = made("host-sync", 40, 240)
    assert proposed(ranked([warning, info])) is warning
    assert proposed([info]) is None


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
