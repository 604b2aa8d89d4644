"""Slow-downs since some step, in records that are made of noise as machines have it."""

import numpy as np
import pytest
from rule_cases import MS, US

from lightning_gpuprof.findings.model import Abstained, Severity
from lightning_gpuprof.records.facts import HostCounters, WaitSoFar
from lightning_gpuprof.records.lines import HostLines, LineCount
from lightning_gpuprof.records.schema import UNTIMED_STEPS, OutsideSpan

STEPS, SINCE = 1_000, 430
PLACE = np.arange(STEPS)


def noisy(ns, seed):
    """Times around a value, some of them far longer, as a busy machine has them."""
    random = np.random.default_rng(seed)
    times = ns * np.exp(random.normal(0, 0.06, STEPS))
    hit = random.random(STEPS) < 0.01
    return (times + hit * random.pareto(1.5, STEPS) * ns).astype(np.int64)


def usual(**more):
    times = {
        "data_wait": noisy(300 * US, 1),
        "forward": noisy(800 * US, 2),
        "backward": noisy(700 * US, 3),
        "optimizer_step": noisy(200 * US, 4),
        "callbacks": noisy(50 * US, 5),
        "other": noisy(100 * US, 6),
    }
    for phase, planted in more.items():
        times[phase] = times[phase] + planted.astype(np.int64)
    return times


def at_once(more_ns):
    return more_ns * (PLACE >= SINCE)


@pytest.mark.parametrize("phase", ["data_wait", "forward", "callbacks"])
def test_a_change_at_once_is_named_with_its_step_and_phase(evaluate, phase):
    finding = evaluate(usual(**{phase: at_once(430 * US)}), steps=STEPS)
    since = finding.evidence["since_step_count"]
    assert abs(since - SINCE) <= 5
    assert finding.title == (
        f"Steps take {finding.title.split()[2]} µs longer since step {since}, mostly in {phase}"
    )
    assert finding.evidence[f"{phase}_since_ns"] - finding.evidence[f"{phase}_before_ns"] == (
        pytest.approx(430 * US, rel=0.1)
    )
    assert finding.severity is Severity.WARNING
    assert finding.saving_ns.high == pytest.approx(430 * US, rel=0.2)


def test_the_saving_is_a_share_of_the_step_as_it_is_by_now(evaluate):
    late = 10 * MS * (PLACE >= STEPS * 9 // 10)
    finding = evaluate(usual(forward=late), steps=STEPS)
    usual_ns = 2_150 * US
    assert finding.of_step_ns == pytest.approx(usual_ns + 10 * MS, rel=0.02)
    assert finding.of_step_ns - finding.saving_ns.high == pytest.approx(usual_ns, rel=0.1)


def test_steps_that_grow_since_some_step_say_by_how_much(evaluate):
    finding = evaluate(usual(forward=2 * US * (PLACE - SINCE).clip(min=0)), steps=STEPS)
    assert "more every 100 steps since step" in finding.title
    assert abs(finding.evidence["since_step_count"] - SINCE) <= 20
    assert finding.evidence["more_per_100_steps_ns"] == pytest.approx(200 * US, rel=0.15)
    assert "grows" in finding.advice


def test_spikes_that_begin_to_recur_say_how_often(evaluate):
    spikes = 20 * MS * ((PLACE >= SINCE) & ((PLACE - SINCE) % 50 == 0))
    finding = evaluate(usual(callbacks=spikes), steps=STEPS)
    assert finding.title.startswith("Every 50 steps 20.")
    assert finding.title.endswith(f"more since step {SINCE}, mostly in callbacks")
    assert finding.evidence["spikes_every_steps_count"] == 50


def test_spikes_are_found_where_few_steps_are_timed_by_phase(evaluate):
    times = usual(callbacks=20 * MS * ((PLACE >= SINCE) & ((PLACE - SINCE) % 50 == 0)))
    timed = np.zeros(STEPS, dtype=bool)
    timed[[group * 4 + int(4 * (group * 0.618 % 1)) for group in range(STEPS // 4)]] = True
    whole = sum(times.values())
    long = ~timed & (whole > 1.3 * np.median(whole))
    untimed = OutsideSpan(
        where=UNTIMED_STEPS,
        start_ns=0,
        dur_ns=int(whole[~timed].sum()),
        phase_ns={},
        steps=int((~timed).sum()),
        long_steps=PLACE[long].tolist(),
        long_ns=whole[long].tolist(),
    )
    finding = evaluate(
        {phase: ns[timed] for phase, ns in times.items()},
        steps=int(timed.sum()),
        columns={"step": PLACE[timed]},
        records=[untimed],
    )
    assert finding.evidence["since_step_count"] == SINCE
    assert finding.evidence["spikes_every_steps_count"] == 50
    assert finding.title.endswith("mostly in callbacks")


def test_the_line_whose_share_has_grown_is_named(evaluate):
    before, since = tuple(range(5, SINCE, 4)), tuple(range(SINCE, STEPS, 4))
    lines = (
        LineCount("forward", "t.py", 8, "f", "net(x)", None, "model", 150, steps=before + since),
        LineCount("forward", "t.py", 9, "f", "slow(x)", None, None, 100, steps=since[:100]),
    )
    steps = (*before, *since, *since[:100])
    sampled = HostLines(len(steps), lines, {"forward": len(steps)}, steps=steps)
    finding = evaluate(usual(forward=at_once(800 * US)), steps=STEPS, records=[sampled])
    assert (finding.places[0].file, finding.places[0].line) == ("t.py", 9)
    assert "`slow(x)`" in finding.advice
    assert finding.confidence == 0.8


def test_other_programs_are_named_if_training_waits_for_a_core(evaluate):
    random = np.random.default_rng(9)
    hit = (PLACE >= SINCE) & (random.random(STEPS) < 0.2)
    queued = np.cumsum(hit) * 4 * MS
    readings = [
        reading
        for step in range(0, STEPS, 111)
        for reading in (
            WaitSoFar(step, int(queued[step])),
            HostCounters(step=step, wall_ns=step * 2 * MS, cpu_ns=0, queued_ns=int(queued[step])),
        )
    ]
    finding = evaluate(usual(forward=4 * MS * hit), steps=STEPS, records=readings)
    assert abs(finding.evidence["since_step_count"] - SINCE) <= 20
    assert "mostly" not in finding.title
    assert "Other programs use the same cores" in finding.advice


def test_what_it_costs_until_the_planned_end_is_given(evaluate):
    trainer = {"max_steps": 5 * STEPS}
    finding = evaluate(usual(forward=at_once(400 * US)), steps=STEPS, trainer=trainer)
    assert finding.evidence["until_end_ns"] == pytest.approx(4 * STEPS * 400 * US, rel=0.2)


def test_a_slow_down_that_has_ended_is_in_the_past(evaluate):
    past = 800 * US * ((PLACE >= 300) & (PLACE < 600))
    result = evaluate(usual(forward=past), steps=STEPS)
    assert isinstance(result, Abstained)
    assert "that has ended" in result.reason


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_whose_pace_drifts_is_no_slow_down(evaluate, seed):
    random = np.random.default_rng(seed)
    drift = np.exp(np.cumsum(random.normal(0, 0.003, STEPS // 20)))[PLACE // 20]
    times = {phase: (ns * drift).astype(np.int64) for phase, ns in usual().items()}
    assert evaluate(times, steps=STEPS) is None


def test_longer_sequences_are_no_slow_down(evaluate):
    lengths = np.where(PLACE < SINCE, 64, 96) * 8
    longer = 800 * US * (lengths / lengths[0] - 1)
    times = usual(forward=longer, backward=longer)
    assert evaluate(times, steps=STEPS, columns={"numbers": lengths}) is None
    assert evaluate(times, steps=STEPS) is not None


def test_spikes_from_the_first_step_on_are_another_findings(evaluate, judge):
    spikes = 20 * MS * (PLACE % 50 == 0)
    assert evaluate(usual(forward=spikes), steps=STEPS) is None
