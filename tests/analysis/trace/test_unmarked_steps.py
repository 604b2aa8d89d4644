import numpy as np
import pytest

from lightning_gpuprof.analysis.run.every_step import every_step
from lightning_gpuprof.analysis.run.phase_split import part_split, phase_split
from lightning_gpuprof.analysis.run.steady import steady_steps, step_stats
from lightning_gpuprof.analysis.run.wall_time import wall_time
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import UNMARKED_STEPS, OutsideSpan, RunEnd, RunStart

PHASES = [Phase.FORWARD, Phase.BACKWARD, Phase.VALIDATION, Phase.CALLBACKS]


@pytest.fixture
def session():
    """Two marked steps of 100 ns, and eight others of which 50 ns are known as validation."""
    columns = {
        "step": [0, 5],
        "start_ns": [0, 500],
        "dur_ns": [100, 100],
        "phase/forward": [30, 30],
        "phase/backward": [60, 60],
        "phase/callbacks": [10, 10],
        "part/callbacks/EMA": [10, 10],
    }
    span = OutsideSpan(
        where=UNMARKED_STEPS,
        start_ns=100,
        dur_ns=850,
        phase_ns={"validation": 50},
        steps=8,
        flagged={"validation": 1},
    )
    return Session(
        start=RunStart(
            schema_version=1, session=0, stage="fit", started_unix_ns=0, rank=0,
            phases=[phase.value for phase in PHASES],
        ),
        records=(span, RunEnd(status="finished", wall_ns=1_050, steps=10)),
        columns={name: np.array(values, dtype=np.int64) for name, values in columns.items()},
    )  # fmt: skip


@pytest.fixture
def steady(session):
    return steady_steps(session)


def test_what_is_not_known_by_phase_is_spread_as_in_the_marked_steps(session, steady):
    phases = phase_split(session, steady)

    assert {phase: stats.total_ns for phase, stats in phases.items()} == {
        Phase.FORWARD: 300,
        Phase.BACKWARD: 600,
        Phase.VALIDATION: 50,
        Phase.CALLBACKS: 100,
    }
    assert sum(stats.total_ns for stats in phases.values()) == wall_time(session).wall_ns


def test_what_each_step_is_timed_for_is_known_of_all(session, steady):
    every = every_step(session, steady)

    assert (every.steps, every.mean_ns(Phase.VALIDATION)) == (10, 5)
    assert every.flagged["validation"] == 1
    assert every.mean_ns(Phase.CHECKPOINT) is None
    assert step_stats(session).ran == 10


def test_a_part_keeps_its_share_of_its_phase(session, steady):
    (ema,) = part_split(session, steady)

    assert ema.total_ns == 100


def test_figures_per_step_are_of_marked_steps_alone(session, steady):
    assert phase_split(session, steady)[Phase.FORWARD].per_step.mean_ns == 30


def test_a_run_in_which_every_step_was_marked_is_left_as_it_was_measured(session, steady):
    whole = Session(session.start, session.records[1:], session.columns)

    assert phase_split(whole, steady)[Phase.FORWARD].total_ns == 60
