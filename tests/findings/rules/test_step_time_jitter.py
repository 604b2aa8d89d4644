import pytest
from rule_cases import MS, US, WORK, every, span

from lightning_gpuprof.findings.engine import make_plan
from lightning_gpuprof.findings.model import Abstained, Place, Severity
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import Device


def collecting(*steps):
    """Return the phases of steps of 10 ms, some of which collect garbage for 45 ms."""
    collecting_ns = [45 * MS if step in steps else 0 for step in range(100)]
    return {"forward": 10 * MS, "garbage_collection": collecting_ns}


def slow(*steps):
    """Return the phases of steps of 10 ms, some of which take 60."""
    return {"forward": [60 * MS if step in steps else 10 * MS for step in range(100)]}


REGULAR = {"forward": every(20, 60 * MS, 10 * MS, first=7)}
IN_BACKWARD = {"garbage_collection/backward": collecting(3, 11, 80)["garbage_collection"]}

CALL = LineCount("other", "t.py", 9, "on_train_batch_end", "gc.collect()", None, None, 3)
CALLED = [HostLines(90, (CALL,), {"other": 3, "forward": 87})]


def test_spikes_at_regular_intervals_have_a_cause(evaluate):
    finding = evaluate(REGULAR)
    assert finding.severity is Severity.WARNING
    assert finding.evidence["steps_between_count"] == 20
    assert span(finding) == (2_250 * US, 2_500 * US)


def test_the_line_that_takes_most_of_regular_spikes_is_named(evaluate):
    often = LineCount("forward", "t.py", 9, "draw", "plot(table)", None, None, 180)
    sampled = [HostLines(200, (often,), {"forward": 200})]
    assert [place.line for place in evaluate(REGULAR, records=sampled).places] == [9]
    assert [place.line for place in evaluate(slow(3, 11, 80), records=sampled).places] == [None]


@pytest.mark.parametrize("steps", [range(7, 100, 25), range(40, 46)], ids=["few", "burst"])
def test_a_few_even_intervals_may_be_chance_and_a_burst_is_not_regular(evaluate, steps):
    finding = evaluate(slow(*steps))
    assert finding.evidence["spikes_count"] == len(steps)
    assert finding.severity is Severity.INFO
    assert "steps_between_count" not in finding.evidence


def test_irregular_spikes_are_info_at_most(evaluate):
    finding = evaluate(slow(3, 11, 80))
    assert finding.severity is Severity.INFO
    assert finding.advice.endswith("look for other programs on this machine first.")
    assert make_plan([finding]) == []  # it names no change
    on_gpu = evaluate(slow(3, 11, 80), device=Device(type="cuda"))
    assert "Trainer(benchmark=True)" in on_gpu.advice


def test_waits_for_the_devices_queue_are_not_spikes(evaluate):
    columns = {"device_dur": 12 * MS, "device/forward": 12 * MS, "run_ahead/forward": 80 * MS}
    assert evaluate(slow(3, 11, 80), columns=columns) is None


def test_garbage_collections_are_a_cause_of_spikes(evaluate):
    finding = evaluate(collecting(3, 11, 80), parts=IN_BACKWARD)
    assert finding.severity is Severity.WARNING
    assert "gc.freeze()" in finding.change
    assert [effort.difficulty for _, effort in make_plan([finding])] == [
        "two lines before training"
    ]
    assert finding.places == (Place(phase="garbage_collection", name="backward"),)
    assert span(finding) == (675 * US, 1_350 * US)  # what is made anew is gone through still


def test_a_sampled_call_of_the_collector_is_to_be_removed(evaluate):
    finding = evaluate(collecting(3, 11, 80), records=CALLED)
    assert finding.change is None
    assert "on_train_batch_end calls gc.collect() (t.py:9)" in finding.advice
    assert finding.places[0].line == 9


def test_a_spike_of_the_machine_is_not_the_collectors(evaluate):
    finding = evaluate(collecting(3, 50, 80) | slow(11), records=CALLED)
    assert span(finding) == (round(0.8 * 1_350 * US), round(1.2 * 1_350 * US))


def test_a_single_full_collection_is_no_rate(evaluate):
    assert evaluate(collecting(30)) is None


def test_spikes_of_waits_and_callbacks_have_other_findings(evaluate):
    callbacks = every(20, 60 * MS, MS, first=7)
    assert evaluate({**WORK, "callbacks": callbacks}) is None


def test_a_lasting_change_of_the_step_time_is_not_jitter(evaluate, analyze):
    # A run that trains nothing in its first 300 batches.
    phases = {"forward": [MS if step < 300 else 12 * MS for step in range(400)]}
    result = evaluate(phases, steps=400)
    assert isinstance(result, Abstained)
    assert result.reason == ("the step time changes at step 300 and stays so, which is not jitter")
    changed = analyze(phases, steps=400).variation.pace
    assert (changed.since_step, changed.before_ns, changed.after_ns) == (300, MS, 12 * MS)
