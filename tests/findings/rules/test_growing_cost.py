"""Validations, callbacks and steps that take longer each time."""

import numpy as np
import pytest

from lightning_gpuprof.analysis.run.host_lines import HostLines, LineCount
from lightning_gpuprof.findings.engine import evaluate_rules
from lightning_gpuprof.findings.model import Severity
from lightning_gpuprof.records.facts import ProcessMemory
from lightning_gpuprof.records.schema import Device, OutsideSpan, StepFlag

MS = 1_000_000
EVERY = 20
TIMES = 16
STEPS = EVERY * TIMES
WORK = {"forward": 4 * MS, "backward": 6 * MS}


def each(taken_ms, *, every=EVERY):
    """Return a column in which so much is taken at the end of each so many steps."""
    column = np.zeros(every * len(taken_ms), dtype=np.int64)
    column[every - 1 :: every] = np.array(taken_ms) * MS
    return column


GROWING = each(np.arange(10, 10 + 5 * TIMES, 5))


@pytest.fixture
def said(judge):
    def look(more, **options):
        return judge("growing-cost", {**WORK, **more}, **{"steps": STEPS, **options})

    return look


def test_validations_that_take_longer_each_time_are_told_with_the_hook_that_grows(said):
    part = {"validation/on_validation_epoch_end": GROWING}
    (finding,) = said({"validation": GROWING + each([3] * TIMES)}, parts=part)
    assert finding.title == ("on_validation_epoch_end grew from 15.0 ms to 80.0 ms after 16 times")
    assert finding.evidence["more_ns"] == 5 * MS
    # 10, 15 ... 85 ms are 37.5 above the first, in each 20 steps, a fifth less; 65 by now.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (1_500_000, 3_250_000)
    assert finding.severity is Severity.WARNING
    # That it works on what was kept was not seen.
    assert finding.advice.startswith("Clear what was used")
    assert finding.confidence == 0.5


def test_what_growing_costs_is_not_promised_by_validating_more_seldom_too(judge):
    flags = [int(StepFlag.VALIDATION) * bool(one) for one in GROWING]
    phases = {**WORK, "validation": GROWING}
    finding = judge("frequent-validation", phases, flags=flags, steps=STEPS)
    # Of 2.375 ms per step 1.875 are above the first: growing-cost's.
    assert finding.evidence["validation_ns"] == 2_375_000
    assert 0 < finding.saving_ns.high <= 1.2 * 500_000


def test_what_is_done_between_epochs_is_told_too(said):
    spans = [
        OutsideSpan(
            where=where, start_ns=i * EVERY * 10 * MS + 1, dur_ns=ms * MS,
            phase_ns={"callbacks": ms * MS}, part_ns={"callbacks/Plots": ms * MS},
        )
        for i in range(1, TIMES + 1)
        for where, ms in (("epoch_end", 10 * i), ("epoch_start", 15))
    ]  # fmt: skip
    (finding,) = said({}, records=spans)
    assert finding.title.startswith("Plots grew from 20.0 ms to 150 ms after 16")
    assert finding.change.startswith("self.items = collections.deque(")


def test_between_epochs_it_may_cost_more_than_the_steps(said):
    spans = [
        OutsideSpan(
            where="epoch_end", start_ns=i * EVERY * 10 * MS + 1, dur_ns=i * 1000 * MS,
            phase_ns={"callbacks": i * 1000 * MS}, part_ns={"callbacks/Plots": i * 1000 * MS},
        )
        for i in range(1, TIMES + 1)
    ]  # fmt: skip
    (finding,) = said({}, records=spans)
    # 7.5 s above the first, in each 20 steps of 10 ms.
    assert finding.evidence["grown_ns"] == 375 * MS
    # By now the median of the last three, 15 s, is 13 above that of the first.
    assert (finding.saving_ns.low, finding.saving_ns.high) == (300 * MS, 650 * MS)


def test_what_grows_with_each_step_has_grown_before_the_first_steady_one(said):
    forward = [4 * MS + step * 50_000 for step in range(STEPS)]
    warm = [int(StepFlag.WARMUP) if step < 20 else 0 for step in range(STEPS)]
    (finding,) = said({"forward": forward}, flags=warm)
    # On average it is as much above the first step of all as in the middle of the steady ones.
    grown_ns = finding.evidence["grown_ns"]
    assert grown_ns == pytest.approx(50_000 * (20 + 300 / 2), rel=0.01)
    assert finding.saving_ns.low == pytest.approx(0.8 * grown_ns, abs=1)
    by_now_ns = finding.evidence["last_ns"] - finding.evidence["first_ns"]
    assert finding.saving_ns.high == by_now_ns > 1.2 * grown_ns


def test_a_forward_that_gets_slower_by_itself_is_told_with_the_line_that_keeps(said):
    forward = [4 * MS + step * 50_000 for step in range(STEPS)]
    source = "self.bank = torch.cat([self.bank, new])"
    lines = (LineCount("forward", "train.py", 35, "add", source, None, None, 20),)
    seen = HostLines(100, lines, {"forward": 100})
    (finding,) = said({"forward": forward}, records=[seen])
    assert finding.title.startswith("forward grew from 4.")
    assert finding.where[0].line == 35
    assert finding.advice.startswith("Keep running sums")
    assert finding.confidence == 0.9


@pytest.mark.parametrize("filled", [0.45, 0.5, 0.6])
def test_a_forward_whose_cache_has_filled_grows_no_more(said, filled):
    forward = [4 * MS + min(step, int(filled * STEPS)) * 50_000 for step in range(STEPS)]
    assert said({"forward": forward}) == ()


def test_memory_growth_tells_of_what_grows_with_memory(analyze):
    forward = [MS + step * 100_000 for step in range(STEPS)]
    notes = [ProcessMemory(30 * i, 10**9 + i * 10**7) for i in range(10)]
    run = analyze({"forward": forward, "backward": 4 * MS}, records=notes, steps=STEPS)
    found = [one.id for one in evaluate_rules(run).found]
    assert "memory-growth" in found
    assert "growing-cost" not in found


def test_on_a_gpu_a_callbacks_time_may_be_hidden(said):
    column = each(range(10, 10 + TIMES * 5, 5))
    part = {"callbacks/Plots": column}
    (finding,) = said({"callbacks": column}, parts=part, device=Device(type="cuda"))
    assert finding.saving_ns.low == 0


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "taken_ms",
    [
        [30] * TIMES,
        RNG.integers(20, 60, TIMES),
        [90, 60, *[30] * (TIMES - 2)],  # the first ones warm up
        [20, 25, 30, 35, 40, *[45] * (TIMES - 5)],  # a cache that fills, and stops
        np.arange(100, 100 + TIMES),  # a sixth more in all
        [10, 20, 30, 40, 50, 60, 70, *[0] * (TIMES - 7)],  # too few to say
        [*[20] * 8, *[60] * 8],  # something else begins
    ],
)
def test_validations_that_do_not_grow_are_no_finding(said, taken_ms):
    assert said({"validation": each(taken_ms)}) == ()


def test_a_machine_that_gets_slower_is_not_told(said):
    slower = np.linspace(1, 4, STEPS)
    phases = {name: (ns * slower).astype(np.int64) for name, ns in WORK.items()}
    validation = (each([30] * TIMES) * slower).astype(np.int64)
    assert said({**phases, "validation": validation}) == ()


def test_nor_is_one_that_gets_faster(said):
    faster = np.linspace(4, 1, STEPS)
    backward = (WORK["backward"] * faster).astype(np.int64)
    assert said({"backward": backward, "validation": each([30] * TIMES)}) == ()


def test_a_callback_with_little_to_do_may_grow(said):
    column = each(np.arange(TIMES) / 10)
    assert said({"callbacks": column}, parts={"callbacks/Small": column}) == ()
