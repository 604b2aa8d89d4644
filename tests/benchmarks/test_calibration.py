"""The table of pairs: which finding is right, what is written, and what is left out."""

import json

import msgspec
import pytest
from rule_cases import MS

from lightning_gpuprof.analysis.savings.conformal import Calibration

PROGRAM = '"""A net.\n\ncause: slow\naccept: slow-callback @line\n"""\nx = 1\ny = 2  # cause\n'


@pytest.fixture
def made(fault_suite, tmp_path, make_session, write_run):
    """Make pairs of a program that takes 10 ms a step, 3 of them in a callback that is mended."""
    import calibration

    def pairs(slow_ms=20.0, text=PROGRAM):
        look = tmp_path / "runs/first/netted/look"
        look.parent.mkdir(parents=True)
        phases = {"forward": 7 * MS, "callbacks": 3 * MS}
        run = write_run(make_session(phases=phases, parts={"callbacks/A": 3 * MS}))
        look.symlink_to(run)
        source = tmp_path / "benchmarks/unseen/first/netted.py"
        source.parent.mkdir(parents=True)
        source.write_text(text)
        steps = {"slow": {"step_ms": slow_ms}, "fixed": {"step_ms": 0.7 * slow_ms}}
        (tmp_path / "pairs.json").write_text(json.dumps({"first/netted": steps}))
        return list(calibration.unseen_pairs(tmp_path))

    pairs.module = calibration
    return pairs


def test_what_was_saved_is_scaled_to_the_speed_of_the_recording(made):
    (pair,) = made(slow_ms=15.0)
    assert (pair.kind, pair.source, pair.step_ns) == ("slow-callback", "first/netted", 10 * MS)
    assert pair.measured_ns == pytest.approx(7 * MS, rel=1e-3)
    assert not pair.planted


def test_a_machine_twice_as_slow_is_another_machine(made):
    assert made(slow_ms=20.1) == []


def test_a_program_whose_cause_was_not_found_makes_no_pair(made):
    assert made(slow_ms=10.0, text=PROGRAM.replace("slow-callback", "data-wait")) == []


def test_the_table_is_read_as_it_was_written(made, tmp_path):
    pairs = made(slow_ms=10.0)
    made.module.write(pairs, tmp_path / "table.json")
    table = msgspec.json.decode((tmp_path / "table.json").read_bytes(), type=Calibration)
    assert table.pairs == tuple(pairs)
