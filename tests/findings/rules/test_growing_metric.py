import pytest
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.findings.registry import rules
from lightning_gpuprof.records.facts import MetricState, MetricStates, ProcessMemory
from lightning_gpuprof.records.lines import HostLines, LineCount

RISING = [ProcessMemory(50 * i, 10**9 + i * 10**7) for i in range(10)]
SLOWER = {"forward": [MS + step * 100 * US for step in range(500)], "backward": 4 * MS}
LINE = LineCount("forward", "train.py", 9, "step", "self.auc.compute()", "m.compute", "metric", 60)


def metrics(num_bytes=100 * 10**6, *, updates=500, **more):
    return MetricStates((MetricState("self.auc", "BinaryAUROC", updates, num_bytes, **more),))


def test_a_metric_that_nothing_resets_is_reported_with_the_metric_to_log(evaluate):
    finding = evaluate(WORK, steps=500, records=[metrics(lacks_thresholds=True)])
    assert finding.severity is Severity.WARNING
    assert finding.title == "BinaryAUROC self.auc keeps 195 KiB of each update, and is never reset"
    assert finding.evidence["state_bytes"] == 100 * 10**6
    assert finding.change == 'self.log("auc", self.auc)'
    assert "thresholds=200" in finding.advice


def test_what_gets_slower_with_the_metric_is_saved_and_its_line_named(evaluate):
    sampled = HostLines(100, (LINE,), {"forward": 100})
    finding = evaluate(SLOWER, steps=500, records=[metrics(), *RISING, sampled])
    assert span(finding)[0] == finding.evidence["grown_per_step_ns"] > 0
    assert (finding.places[0].line, finding.places[1].phase) == (9, "forward")


def test_the_time_at_lines_that_call_a_metric_is_saved_even_if_noise_hides_the_growth(analyze):
    sampled = HostLines(100, (LINE,), {"forward": 100})
    run = analyze(WORK, steps=500, records=[metrics(10**6), sampled])
    asked = [rules()[name] for name in ("growing-metric", "slow-python", "costly-line")]
    [finding] = evaluate_rules(run, asked).findings
    assert finding.id == "growing-metric"
    # 60 of 100 samples of 6 ms, with their error.
    assert span(finding) == (pytest.approx(1.5 * MS, rel=0.02), pytest.approx(4.2 * MS, rel=0.02))


def test_a_metric_that_holds_graphs_is_to_be_given_detached_tensors(evaluate):
    finding = evaluate(WORK, steps=500, records=[metrics(4_000, holds_graph=True), *RISING])
    assert "detached" in finding.advice


@pytest.mark.parametrize("phases", [WORK, SLOWER])
def test_the_same_growth_is_reported_once(analyze, phases):
    sampled = HostLines(100, (LINE,), {"forward": 100})
    run = analyze(phases, steps=500, records=[metrics(), *RISING, sampled])
    asked = [rules()[name] for name in ("growing-metric", "memory-growth", "costly-line")]
    assert [finding.id for finding in evaluate_rules(run, asked).findings] == ["growing-metric"]


def test_a_metric_that_is_reset_counts_only_if_memory_grows_by_it(evaluate):
    reset = metrics(was_reset=True)
    assert evaluate(WORK, steps=500, records=[reset]) is None
    finding = evaluate(WORK, steps=500, records=[reset, *RISING])
    assert finding.change is None
    assert "never reset" not in finding.title
    small = metrics(10**6, was_reset=True)
    assert evaluate(WORK, steps=500, records=[small, *RISING]) is None


def test_in_an_evaluation_and_in_a_run_that_was_cut_short_no_reset_was_due(evaluate):
    assert evaluate(WORK, steps=500, records=[metrics()], stage="test") is None
    assert evaluate(WORK, steps=500, records=[metrics()], end=False) is None


def test_small_states_are_not_reported(evaluate):
    assert evaluate(WORK, steps=500, records=[metrics(10**6)]) is None


def test_without_a_metric_that_keeps_values_the_rule_abstains(evaluate):
    assert isinstance(evaluate(WORK), Abstained)
