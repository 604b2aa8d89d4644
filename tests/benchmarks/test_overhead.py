import os

import pytest


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


def test_the_table_holds_medians_and_means_of_whole_steps_and_of_what_is_not_computing(
    fault_suite,
):
    from overhead import markdown, toggle_row

    pair = {"bare_ns": 100_000.0, "added_ns": 2_000.0, "outside_ns": 1_500.0}
    row = toggle_row([{"step": 600, **pair}, {"step": 650, **pair}], settled=600)

    added, outside = "+2.0 ± 0.0 | +2.0 ± 0.0", "+1.5 ± 0.0 | +1.5 ± 0.0"
    assert f"| PhaseTimer | {added} | {outside} | - |" in markdown("tiny", {"PhaseTimer": row})


def test_what_is_toggled_leaves_and_comes_back_whole(fault_suite, tmp_path, monkeypatch):
    import overhead_toggle
    from overhead_variants import KINDS, StepKind

    monkeypatch.chdir(tmp_path)
    small = StepKind(width=4, layers=1, batch=2, block=7, settled=0, blocks=4, fits=1)
    monkeypatch.setitem(KINDS, "tiny", small)
    seen = []
    turn = overhead_toggle.Switch.turn

    def spying(self, *, on):
        turn(self, on=on)
        trainer = self._bare[0][0]
        seen.append((on, [type(one).__name__ for one in trainer.callbacks]))

    monkeypatch.setattr(overhead_toggle.Switch, "turn", spying)

    pairs = overhead_toggle.toggled("GpuProfCallback outside its window", "tiny", 0)

    assert [pair["step"] for pair in pairs] == [14, 21, 28, 35]
    assert sorted(on for on, _ in seen) == [False] * 4 + [True] * 5
    assert all(names == (["GpuProfCallback"] if on else []) for on, names in seen)


def test_a_fork_leaves_its_parent_as_it_was(fault_suite):
    from _harness import ChildFailed, forked

    seen = []
    assert forked(lambda: (seen.append(1), os.getpid())[1]) != os.getpid()
    assert seen == []
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        forked(lambda: 1 / 0)
