import pytest
from rule_cases import MS, US, WORK, span

from lightning_gpuprof.analysis.run.host_lines import NOTE, HostLines, LineCount
from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.schema import Note

RISING = [Note(step=50 * i, name="rss_bytes", value=10**9 + i * 10**7) for i in range(10)]
SLOWER = {"forward": [MS + step * 100 * US for step in range(500)], "backward": 4 * MS}


def test_memory_that_rises_all_along_is_told(judge):
    finding = judge("memory-growth", WORK, records=RISING)
    assert finding.severity is Severity.WARNING
    assert finding.evidence["growth_per_step_bytes"] == 200_000


def test_graphs_that_are_kept_are_said_to_be_the_cause(judge):
    kept = Note(step=3, name="kept_graphs", value=True)
    finding = judge("memory-growth", WORK, records=[*RISING, kept])
    assert finding.title.endswith("the graphs of earlier steps are kept, and memory with them")
    alone = judge("memory-growth", WORK, records=[kept])
    assert alone.severity is Severity.WARNING
    assert span(alone) == (0, 0)


def test_a_cache_that_fills_and_stops_is_not_told(judge):
    sizes = [1, 2, 3, 4, 5, 6, 6, 6, 6, 6]
    notes = [Note(step=i, name="rss_bytes", value=s * 10**8) for i, s in enumerate(sizes)]
    assert judge("memory-growth", WORK, records=notes) is None


def test_a_forward_that_gets_slower_with_it_costs_what_it_grew_by(judge):
    finding = judge("memory-growth", SLOWER, steps=500, records=RISING)
    grown = finding.evidence["forward_last_ns"] - finding.evidence["forward_first_ns"]
    # Up to the middle of the first sixteenth it had grown as well, by 100 us a step.
    before = round(500 / 32 * 100 * US)
    assert span(finding) == (
        finding.evidence["grown_per_step_ns"],
        pytest.approx(grown + before, abs=50 * US),
    )
    assert "forward went from" in finding.title


def test_a_forward_that_gets_slower_is_a_fact_where_memory_was_not_measured(judge):
    # By less than what `growing-cost` tells, which this is not to tell a second time.
    slightly = {**SLOWER, "forward": [50 * MS + step * 20 * US for step in range(500)]}
    finding = judge("memory-growth", slightly, steps=500)
    assert finding.severity is Severity.INFO
    assert isinstance(judge("memory-growth", SLOWER, steps=500), Abstained)
    assert span(finding)[0] == finding.evidence["grown_per_step_ns"] > 0


def test_a_forward_that_gets_slower_while_memory_does_not_is_not_told(judge):
    notes = [Note(step=50 * i, name="rss_bytes", value=10**9) for i in range(10)]
    assert judge("memory-growth", SLOWER, steps=500, records=notes) is None


def test_growth_is_seen_on_a_machine_that_others_slow_down_now_and_then(judge):
    slowed = [2 if step % 100 < 70 and step < 400 else 1 for step in range(500)]
    phases = {
        "forward": [n * (4 * MS + step * 10 * US) for step, n in enumerate(slowed)],
        "backward": [n * 4 * MS for n in slowed],
    }
    finding = judge("memory-growth", phases, steps=500, records=RISING)
    assert "forward went from" in finding.title
    # The pace of most steps is taken as usual: 4 ms, and 10 us more in each step.
    assert finding.evidence["forward_last_ns"] > 1.9 * finding.evidence["forward_first_ns"]
    steady = {**phases, "forward": [n * 4 * MS for n in slowed]}
    assert "forward" not in judge("memory-growth", steady, steps=500, records=RISING).title


@pytest.mark.parametrize(("optimizer", "told"), [(lambda n: 2 * n, True), (lambda n: 2, False)])
def test_a_backward_pass_that_gets_shorter_alone_makes_no_other_phase_grow(judge, optimizer, told):
    slowed = [1 + (500 - step) / 500 for step in range(500)]
    phases = {
        "forward": [round(4 * MS + step % 7 * 10 * US) for step in range(500)],
        "backward": [round(n * 8 * MS) for n in slowed],
        "optimizer_step": [round(optimizer(n) * MS) for n in slowed],
    }
    finding = judge("memory-growth", phases, steps=500, records=RISING)
    assert ("forward went from" in finding.title) is told


@pytest.mark.parametrize(
    ("source", "wanted", "change"),
    [
        ("self.held[key] = torch.cat([old, new])", 35, "instead of torch.cat"),
        ("self.losses.append(loss)", 35, "instead of self.losses.append(loss)"),
        ("x = torch.cat([x, noise], 1)", None, "instead of self.losses.append(loss)"),
    ],
)
def test_the_line_that_adds_to_what_is_kept_is_named(judge, source, wanted, change):
    lines = (
        LineCount("forward", "train.py", 9, "forward", "x = self.net(x)", None, "model", 60),
        LineCount("forward", "train.py", 35, "add", source, None, None, 20),
    )
    seen = Note(step=9, name=NOTE, value=HostLines(100, lines, {"forward": 100}))
    finding = judge("memory-growth", SLOWER, steps=500, records=[*RISING, seen])
    assert finding.where[0].line == wanted
    assert change in finding.change


def inputs(numbers):
    return [
        Note(step=50 * look, name="first_result_numbers", value=number)
        for look, number in enumerate(numbers)
    ]


def test_a_larger_input_explains_no_more_memory_than_it_may_take(judge):
    # 9 % more in the end: of batches with a hundredth more numbers it cannot be.
    assert judge("memory-growth", WORK, records=[*RISING, *inputs([100, 100, 101, 101])]).evidence
    larger = [*RISING, *inputs([100, 102, 104, 106])]
    assert isinstance(judge("memory-growth", WORK, records=larger), Abstained)


@pytest.mark.parametrize(
    ("numbers", "source", "told"),
    [
        ([16, 32, 48, 64], "self.held = torch.cat([self.held, x.detach()])", True),
        ([16, 32, 48, 64], "h = self.proj(torch.cat(self.bank))", True),
        ([16, 32, 48, 64], "self.bank.append(x)", True),
        # Longer sequences that are put together: nothing is kept from step to step.
        ([16, 32, 48, 64], "outs.append(self.block(x))", False),
        ([16, 32, 48, 64], "self.last = torch.cat([first, second])", False),
        # By steps, on purpose.
        ([16, 16, 16, 64], "self.held = torch.cat([self.held, x.detach()])", False),
    ],
)
def test_what_is_kept_and_gone_through_is_no_input_that_explains_it(judge, numbers, source, told):
    line = LineCount("forward", "train.py", 9, "training_step", source, None, None, 60)
    seen = Note(step=9, name=NOTE, value=HostLines(100, (line,), {"forward": 100}))
    flat = [Note(step=50 * i, name="rss_bytes", value=10**9) for i in range(10)]
    phases = {name: [MS + step * 10 * US for step in range(500)] for name in SLOWER}
    notes = [*inputs(numbers), *flat, seen, FREED]
    found = judge("memory-growth", phases, steps=500, records=notes)
    if not told:
        assert found is None or isinstance(found, Abstained)
        return
    assert found.severity is Severity.CRITICAL
    assert found.title.endswith("made 16 numbers at first, and 64 at last")
    assert "give what is kept a bound" in found.advice
    assert found.where[0].line == 9
    assert found.saving_ns.low == 0


LONGER = {name: [MS + step * 10 * US for step in range(500)] for name in ("forward", "backward")}
FREED = Note(step=3, name="kept_graphs", value=False)


@pytest.mark.parametrize(
    ("numbers", "silent"),
    [
        ([16, 32, 48, 64], True),  # both passes take six times as long, which is below 4 ** 2
        ([16, 20, 26, 32], False),
        ([16, 16, 32, 32, 48, 48, 64, 64, 80], True),
        ([64, 64, 64, 64], False),
        ([16, 32, 64], False),  # too few to tell from chance
        ([16, 64, 32, 64], False),  # now longer, now shorter
        ([16, 80, 32, 48, 16, 64, 32, 80], False),
        ([], False),
    ],
)
@pytest.mark.parametrize("rss", [True, False])
def test_what_grows_with_the_models_input_is_no_leak(judge, numbers, silent, rss):
    records = [*(RISING if rss else ()), FREED, *inputs(numbers)]
    phases = {**LONGER, "optimizer_step": 4 * MS}
    outcome = judge("memory-growth", phases, steps=500, records=records)
    assert isinstance(outcome, Abstained) == silent
    if silent:
        assert f"made {numbers[0]:,} numbers at first" in outcome.reason


def test_graphs_that_are_kept_are_a_leak_whatever_the_input_does(judge):
    kept = Note(step=3, name="kept_graphs", value=True)
    records = [*RISING, kept, *inputs([16, 32, 48, 64])]
    finding = judge("memory-growth", LONGER, steps=500, records=records)
    assert finding.severity is not Severity.INFO


def test_a_callback_that_gets_slower_is_told_whatever_the_input_does(judge):
    phases = {**LONGER, "optimizer_step": 4 * MS, "callbacks": LONGER["forward"]}
    records = [*RISING, FREED, *inputs([16, 32, 48, 64])]
    finding = judge("memory-growth", phases, steps=500, records=records)
    assert [at.phase for at in finding.where] == ["callbacks"]


def test_a_machine_that_gets_slower_is_not_told(judge):
    slower = {**SLOWER, "backward": SLOWER["forward"]}
    assert isinstance(judge("memory-growth", slower, steps=500), Abstained)
