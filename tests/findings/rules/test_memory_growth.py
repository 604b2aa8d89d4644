import pytest
from msgspec.structs import replace
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.lines import HostLines, LineCount

RISING = [ProcessMemory(50 * i, 10**9 + i * 10**7) for i in range(10)]
SLOWER = {"forward": [MS + step * 100 * US for step in range(500)], "backward": 4 * MS}


def test_memory_that_rises_through_the_whole_run_is_reported(evaluate):
    finding = evaluate(WORK, records=RISING)
    assert finding.severity is Severity.WARNING
    assert finding.evidence["growth_per_step_bytes"] == 200_000


@pytest.mark.parametrize(("available", "severity"), [(99, "critical"), (101, "warning")])
def test_memory_that_ends_a_run_of_twice_the_length_is_critical(evaluate, available, severity):
    """The run has 100 steps, of which each takes 200 kB more."""
    room = available * 200_000
    rising = [replace(reading, available_bytes=room) for reading in RISING]
    assert evaluate(WORK, records=rising).severity.value == severity


def test_memory_that_is_full_before_the_planned_end_is_critical(evaluate):
    rising = [replace(reading, available_bytes=500 * 200_000) for reading in RISING]
    planned = evaluate(WORK, records=rising, trainer={"max_steps": 1_000})
    assert planned.severity is Severity.CRITICAL
    assert evaluate(WORK, records=rising, trainer={"max_steps": -1}).severity is Severity.WARNING


def test_a_cache_that_fills_and_stops_growing_is_not_reported(evaluate):
    sizes = [1, 2, 3, 4, 5, 6, 6, 6, 6, 6]
    notes = [ProcessMemory(i, s * 10**8) for i, s in enumerate(sizes)]
    assert evaluate(WORK, records=notes) is None


def test_a_forward_that_gets_slower_with_memory_costs_what_it_grew_by(evaluate):
    finding = evaluate(SLOWER, steps=500, records=RISING)
    grown = finding.evidence["forward_last_ns"] - finding.evidence["forward_first_ns"]
    # Up to the middle of the first sixteenth it had grown as well, by 100 us a step.
    before = round(500 / 32 * 100 * US)
    assert span(finding) == (
        finding.evidence["grown_per_step_ns"],
        pytest.approx(grown + before, abs=50 * US),
    )


def test_a_forward_that_gets_slower_is_info_if_memory_was_not_measured(evaluate):
    slightly = {**SLOWER, "forward": [50 * MS + step * 20 * US for step in range(500)]}
    finding = evaluate(slightly, steps=500)
    assert finding.severity is Severity.INFO
    assert span(finding)[0] == finding.evidence["grown_per_step_ns"] > 0


def test_a_forward_that_gets_slower_while_memory_stays_is_not_reported(evaluate):
    notes = [ProcessMemory(50 * i, 10**9) for i in range(10)]
    assert evaluate(SLOWER, steps=500, records=notes) is None


@pytest.mark.parametrize(
    ("source", "wanted", "change"),
    [
        ("self.held[key] = torch.cat([old, new])", 35, "instead of torch.cat"),
        ("self.losses.append(loss)", 35, "instead of self.losses.append(loss)"),
        ("x = torch.cat([x, noise], 1)", None, "instead of self.losses.append(loss)"),
    ],
)
def test_the_line_that_appends_to_a_collection_is_named(evaluate, source, wanted, change):
    lines = (
        LineCount("forward", "train.py", 9, "forward", "x = self.net(x)", None, "model", 60),
        LineCount("forward", "train.py", 35, "add", source, None, None, 20),
    )
    sampled = HostLines(100, lines, {"forward": 100})
    finding = evaluate(SLOWER, steps=500, records=[*RISING, sampled])
    assert finding.places[0].line == wanted
    assert change in finding.change


def test_a_machine_that_gets_slower_is_not_growth(evaluate):
    slower = {**SLOWER, "backward": SLOWER["forward"]}
    assert evaluate(slower, steps=500) is None


@pytest.mark.parametrize("stage", ["test", "validate", "predict"])
def test_in_an_evaluation_there_is_no_graph_to_detach(evaluate, stage):
    finding = evaluate(WORK, records=RISING, stage=stage)
    assert "detach" not in finding.advice + finding.change
    assert "metric" in finding.advice
