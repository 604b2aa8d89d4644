import os
from types import SimpleNamespace

import pytest


@pytest.fixture
def rounds():
    bare, timed = (100_000.0, 200_000.0, 100_000.0), (103_000.0, 201_000.0, 110_000.0)
    pairs = zip(bare, timed, strict=True)
    return [{"bare Trainer": one, "PhaseTimer": other} for one, other in pairs]


def test_what_a_whole_fit_adds_is_taken_within_each_round(fault_suite, rounds):
    from overhead import fit_rows

    added = fit_rows(rounds)["PhaseTimer"]["added_ns"]

    assert (added["low"], added["median"], added["high"]) == (1_000.0, 3_000.0, 10_000.0)


def test_the_first_steps_are_told_apart_from_later_ones(fault_suite):
    from overhead import toggle_row

    pairs = [
        {"step": step, "bare_ns": 100.0, "added_ns": added, "outside_ns": added / 2}
        for step, added in ((0, 9.0), (50, 11.0), (600, 1.0), (650, 3.0))
    ]

    row = toggle_row(pairs, settled=600)

    assert row["first_added_ns"]["mean"] == 10.0
    later = row["later_added_ns"]
    assert (later["mean"], later["mean_error"], later["median"], later["count"]) == (2, 1, 2, 2)
    assert later["median_error"] == pytest.approx(1.858 / 2**0.5, rel=1e-3)
    assert row["later_outside_ns"]["mean"] == 1.0


def test_the_table_holds_both_ways_of_measuring(fault_suite, rounds):
    from overhead import fit_rows, markdown, toggle_row

    pair = {"bare_ns": 100_000.0, "added_ns": 2_000.0, "outside_ns": 1_500.0}
    row = toggle_row([{"step": 600, **pair}, {"step": 650, **pair}], settled=600)

    text = markdown("tiny", {"PhaseTimer": row}, fit_rows(rounds))

    assert "A step without takes 100 us." in text
    assert "| PhaseTimer | +2.0 ± 0.0 | +2.0 ± 0.0 | +1.5 ± 0.0 | +3.0 (+1 to +10) |" in text


def test_a_whole_fit_is_timed_from_its_first_step_on(fault_suite, monkeypatch):
    import overhead_variants

    def fit(variant, kind, steps, *, at_block, **_):
        for _ in range(0, steps + 1, overhead_variants.KINDS[kind].block):
            at_block(None)

    times = iter(range(0, 10**6, 5_000))
    monkeypatch.setattr(overhead_variants, "fit", fit)
    monkeypatch.setattr(overhead_variants.time, "perf_counter_ns", lambda: next(times))
    assert overhead_variants.whole_fit("bare Trainer", "tiny", 200) == 5_000 / 50


def test_the_goals_are_judged_within_a_fit_and_over_whole_ones(fault_suite, monkeypatch, capsys):
    import overhead

    monkeypatch.delenv("FIGURES", raising=False)
    toggles = {overhead.DEFAULT: {"later_added_ns": {"median": 4_000.0}}}
    overhead.judge(toggles, {overhead.DEFAULT: {"added_ns": {"median": 16_000.0}}})
    said = capsys.readouterr().out
    assert "PASS  overhead: us within a fit, short step: 4 (at most 5)" in said
    assert "FAIL  overhead: us over whole fits, short step: 16 (at most 15)" in said


def test_what_is_toggled_leaves_and_comes_back_whole(fault_suite, tmp_path, monkeypatch):
    import overhead_toggle
    from overhead_variants import KINDS, StepKind

    monkeypatch.chdir(tmp_path)
    small = StepKind(
        width=4, layers=1, batch=2, block=7, settled=28, blocks=2, fits=1, steps=1, first=14
    )
    monkeypatch.setitem(KINDS, "tiny", small)
    seen = []
    turn = overhead_toggle.Switch.turn

    def spying(self, *, on):
        turn(self, on=on)
        trainer = self._bare[0][0]
        seen.append((on, [type(one).__name__ for one in trainer.callbacks]))

    monkeypatch.setattr(overhead_toggle.Switch, "turn", spying)

    pairs = overhead_toggle.toggled("GpuProfCallback outside its window", "tiny", 0)

    assert [pair["step"] for pair in pairs] == [14, 21, 42, 49]
    assert sorted(on for on, _ in seen) == [False] * 4 + [True] * 7
    assert all(names == (["GpuProfCallback"] if on else []) for on, names in seen)


def test_a_variants_clock_stands_still_while_the_device_is_waited_for(fault_suite, monkeypatch):
    import overhead_toggle

    now = [0]

    def passes(ns):
        now[0] += ns

    monkeypatch.setattr(overhead_toggle.time, "perf_counter_ns", lambda: now[0])
    turns = []
    switch = SimpleNamespace(turn=lambda on: turns.append(on))
    monkeypatch.setattr(overhead_toggle, "Switch", lambda model: switch)
    blocks = overhead_toggle.Blocks(0, 0, 3, size=5, seed=0, settle=lambda: passes(1_000))
    model = SimpleNamespace(computing_ns=0, trainer=SimpleNamespace(should_stop=False))

    ran = 0
    for _ in range(overhead_toggle.WARM_UP + 2 * 3 + 1):
        blocks.begin(model)
        passes(7)
        ran += 7 if not turns or turns[-1] else 0

    assert sorted(turns) == [False] * 3 + [True] * 4
    assert blocks.clock() == ran


def test_a_fork_leaves_its_parent_as_it_was(fault_suite):
    from _harness import ChildFailed, forked

    seen = []
    assert forked(lambda: (seen.append(1), os.getpid())[1]) != os.getpid()
    assert seen == []
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        forked(lambda: 1 / 0)


def test_boundaries_hold_no_time_in_which_a_variant_was_out(fault_suite):
    from overhead_toggle import Blocks

    log = SimpleNamespace(times=[10, 20])
    log._settle = lambda: (list(log.times), log.times.clear())[0]
    output, blocks = SimpleNamespace(phase_clock=log), Blocks(1, 0, 0, size=1, seed=0)
    blocks.attach(output)

    blocks._put_log_right()
    blocks._out_ns = 5  # it was out between these two
    log.times.append(35)

    assert log._settle() == [10, 20, 30]
    log.times.append(45)
    assert log._settle() == [40]
