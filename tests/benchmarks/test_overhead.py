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
