from rule_cases import MS, WORK, made, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Place, Severity, When
from lightning_gpuprof.findings.overlap import without_overlap
from lightning_gpuprof.records.facts import CompileTime
from lightning_gpuprof.records.lines import CodePlace, CompileEvent, GuardCause, Recompilation
from lightning_gpuprof.records.schema import StepFlag

SECOND = 1_000 * MS
LINE = CodePlace("t.py", 24, "forward", "if not x.isfinite().all().item():")
BREAK = CompileEvent("graph break", "Unsupported Tensor.item() call", "", LINE)


def compiling(seconds, *records, built=3, loaded=0):
    """Return a run of 1 s of work in 100 steps, the first of which compiles so long as well."""
    took_ns = round(seconds * SECOND)
    first = StepFlag.WARMUP | StepFlag.COMPILED
    return {
        "phases": {
            "forward": [6 * MS + took_ns, *[6 * MS] * 99],
            "backward": WORK["backward"],
        },
        "flags": [first, *[0] * 99],
        "records": [CompileTime(0, took_ns, built, loaded), *records],
    }


def test_compiling_of_graphs_that_break_is_wasted_in_a_short_run(evaluate):
    finding = evaluate(**compiling(9, BREAK, BREAK))
    assert finding.title == "torch.compile takes 9.00 s once (90% of the run), and its graph breaks"
    assert finding.evidence == {
        "step_ns": 10 * MS,
        "compiling_ns": 90 * MS,
        "whole_ns": 9 * SECOND,
        "run_frac": 0.9,
        "graphs_count": 3,
        "breaks_count": 1,
    }
    assert "at line 24: Unsupported Tensor.item() call. Mend" in finding.advice
    assert "more than 10.0 times as long" in finding.advice
    assert "Graphs compiled: 3." in finding.advice
    assert [(place.file, place.line) for place in finding.places] == [("t.py", 24), (None, None)]
    # Uncompiled, 1 s of work takes 3 s at most.
    assert span(finding) == (70 * MS, 90 * MS)
    assert (finding.severity, finding.when) == (Severity.CRITICAL, When.BETWEEN)


def test_without_a_break_a_longer_run_may_earn_it(evaluate):
    finding = evaluate(**compiling(9))
    assert finding.title == "torch.compile takes 9.00 s once (90% of the run)"
    assert "A longer run compiles no more often" in finding.advice
    assert span(finding) == (0, 90 * MS)
    assert finding.severity is Severity.WARNING


def test_steps_may_be_so_much_faster_that_compiling_pays_all_the_same(evaluate):
    assert span(evaluate(**compiling(1.5, BREAK))) == (0, 15 * MS)


def test_little_time_or_a_small_share_is_left_alone(evaluate):
    assert evaluate(**compiling(0.9, BREAK)) is None
    case = compiling(1.5, BREAK)
    case["phases"]["backward"] = 100 * MS
    assert evaluate(**case) is None
    assert evaluate(WORK) is None


def test_graphs_from_the_cache_on_disk_are_named(evaluate):
    finding = evaluate(**compiling(9, built=1, loaded=7))
    assert "7 of 8 graphs came from inductor's cache on disk" in finding.advice
    assert "The next run" not in finding.advice


def test_further_versions_in_the_first_step_are_named_with_torchs_reason(evaluate):
    reason = "tensor 'x' requires_grad mismatch"
    again = Recompilation(0, LINE, GuardCause.GRADIENT, "x", reason, took_ns=2 * SECOND)
    finding = evaluate(**compiling(9, again))
    assert "Further versions of functions (1) took 2.00 s of it" in finding.advice
    assert f"this reason: {reason}." in finding.advice


def test_what_may_have_been_earned_in_the_run_is_information(evaluate):
    finding = evaluate(**compiling(1.5))
    assert finding.severity is Severity.INFO
    assert "more than 2.5 times as long" in finding.advice


def test_a_counter_that_compiles_again_comes_before_the_first_compilation(analyze):
    again = [
        Recompilation(
            step, LINE, GuardCause.ATTRIBUTE, "self.calls", "self.calls == 1", took_ns=SECOND
        )
        for step in (1, 2, 3)
    ]
    times = [CompileTime(step, SECOND) for step in (1, 2, 3)]
    case = compiling(4, *again, *times)
    case["phases"]["forward"][1:4] = [6 * MS + SECOND] * 3
    case["flags"][1:4] = case["flags"][:1] * 3
    findings = evaluate_rules(analyze(case.pop("phases"), **case)).findings
    assert [finding.id for finding in findings] == ["recompilation", "compile-time"]


def test_the_break_explains_no_time_of_steady_steps_at_its_line(evaluate):
    compiling_once = evaluate(**compiling(9, BREAK))
    place = Place(phase="forward", file="t.py", line=24)
    sync = made("host-sync", MS, 2 * MS, places=(place,))
    staying, _ = without_overlap([compiling_once, sync])
    assert staying == [compiling_once, sync]
