import os

import pytest


@pytest.fixture
def rounds():
    def times(mean_ns):
        return {"mean_ns": mean_ns, "median_ns": mean_ns / 2}

    return [
        {"bare Trainer": times(100_000.0), "PhaseTimer": times(103_000.0)},
        {"bare Trainer": times(200_000.0), "PhaseTimer": times(201_000.0)},
        {"bare Trainer": times(100_000.0), "PhaseTimer": times(110_000.0)},
    ]


def test_what_is_added_is_taken_within_each_round(fault_suite, rounds):
    from overhead import _row

    added = _row("PhaseTimer", rounds)["added_mean_ns"]

    assert (added["low"], added["median"], added["high"]) == (1_000.0, 3_000.0, 10_000.0)


def test_the_table_holds_means_and_medians_and_the_share_of_a_step(fault_suite, rounds):
    from overhead import _row, markdown

    table = {name: _row(name, rounds) for name in rounds[0]}
    text = markdown({"tiny": table}, 3)

    assert "| bare Trainer | (takes 100) | (takes 50) |" in text
    assert "| PhaseTimer | +3.0 (+1 to +10)" in text


def test_a_fork_leaves_its_parent_as_it_was(fault_suite):
    from _harness import ChildFailed, forked

    seen = []
    assert forked(lambda: (seen.append(1), os.getpid())[1]) != os.getpid()
    assert seen == []
    with pytest.raises(ChildFailed, match="ZeroDivisionError"):
        forked(lambda: 1 / 0)


def test_the_peers_figure_is_beside_its_own_environments(fault_suite, rounds):
    from overhead import TRACEML, TRACEML_BARE, _row

    rounds[0][TRACEML_BARE] = {"mean_ns": 500.0, "median_ns": 500.0}
    rounds[0][TRACEML] = {"mean_ns": 700.0, "median_ns": 600.0}

    row = _row(TRACEML, rounds)

    assert row["added_mean_ns"]["median"] == 200.0
    assert row["added_median_ns"]["count"] == 1
