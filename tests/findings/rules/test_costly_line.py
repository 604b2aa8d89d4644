"""The generic answer: where most of a step goes."""

import pytest
from rule_cases import MS, made, op, span

from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.findings.places import with_lines
from lightning_gpuprof.records.lines import HostLines, LineCount

PHASES = {"forward": 8 * MS, "backward": 2 * MS}


def at(line, count):
    return LineCount(
        "forward", "net.py", line, "forward", "x = f(x)", "einops.pack", "model", count
    )


def sampled(*counts):
    lines = tuple(at(line, count) for line, count in counts)
    return HostLines(100, lines, {"forward": 80, "backward": 20})


def test_the_line_that_takes_most_is_named_with_what_it_calls(evaluate):
    finding = evaluate(PHASES, records=[sampled((7, 20), (9, 60))])
    assert finding.title == "forward, line 9, takes 52 to 68% of each step"
    assert finding.severity is Severity.INFO
    assert (finding.saving_ns.low, finding.saving_ns.high) == (0, 0)
    assert [(at.file, at.line, at.name) for at in finding.places] == [("net.py", 9, "einops.pack")]
    assert "mostly in einops.pack" in finding.advice


def test_a_line_that_is_one_of_many_is_not_named(evaluate):
    lines = sampled(*((line, 10) for line in range(8)))
    assert evaluate(PHASES, records=[lines]) is None


def test_without_samples_the_operator_is_named(evaluate):
    trace = {"operators": [op("aten::mm", 4, 12 * MS), op("aten::add", 4, 2 * MS)]}
    finding = evaluate(PHASES, trace=trace)
    assert finding.title == "aten::mm takes 6.00 ms of each step (60%)"
    assert finding.evidence["calls_count"] == 2


def sorting(operation):
    line = "y = x.argsort(1)", None, "model", 60
    return HostLines(
        100,
        (LineCount("forward", "net.py", 9, "forward", *line, operation=operation),),
        {"forward": 80, "backward": 20},
    )


@pytest.mark.parametrize(("sort_ms", "most_ms"), [(8, 4), (2, 0)])
def test_heavy_operators_of_the_line_in_a_trace_may_be_saved(evaluate, sort_ms, most_ms):
    trace = {"operators": [op("aten::sort", 4, sort_ms * MS), op("aten::mm", 4, 2 * MS)]}
    finding = evaluate(PHASES, records=[sorting("argsort")], trace=trace)
    assert span(finding) == (0, most_ms * MS)
    assert "do not sort" in finding.advice


def test_a_loop_of_small_operators_is_not_placed_at_a_line_of_heavy_ones(analyze):
    def places(operation):
        run = analyze(PHASES, records=[sorting(operation)])
        loop = with_lines(made("host-bound", MS, MS), run)
        return [place.line for place in loop.places]

    assert places("add") == [9]
    assert places("argsort") == []


def test_it_comes_last_and_is_suppressed_by_any_finding_at_its_line(analyze):
    phases = {**PHASES, "callbacks": 4 * MS}
    run = analyze(phases, parts={"callbacks/A": 4 * MS}, records=[sampled((9, 60))])
    assert [result.id for result in evaluate_rules(run).findings] == [
        "slow-callback",
        "costly-line",
    ]
    python = LineCount("forward", "net.py", 9, "forward", "x = f(x)", "json.loads", "python", 60)
    note = HostLines(100, (python,), {"forward": 80, "backward": 20})
    evaluation = evaluate_rules(analyze(PHASES, records=[note]))
    assert [result.id for result in evaluation.findings] == ["slow-python"]
    assert "costly-line" in [result.id for result in evaluation.abstained]
