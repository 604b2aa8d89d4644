from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from lightning_gpuprof.analysis.run.every_step import UntimedPhases, every_step
from lightning_gpuprof.analysis.run.phase_split import part_split, phase_split
from lightning_gpuprof.analysis.run.sessions import wall_time
from lightning_gpuprof.analysis.run.steady import steady_steps, step_stats
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.reader import Session
from lightning_gpuprof.records.schema import (
    SCHEMA_VERSION,
    UNTIMED_STEPS,
    OutsideSpan,
    RunEnd,
    RunStart,
    StepFlag,
)

PHASES = [Phase.FORWARD, Phase.BACKWARD, Phase.VALIDATION, Phase.CALLBACKS]


@pytest.fixture
def session():
    """Two marked steps of 100 ns, and eight unmarked ones with 50 ns of timed validation."""
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
        where=UNTIMED_STEPS,
        start_ns=100,
        dur_ns=850,
        phase_ns={"validation": 50},
        steps=8,
        flagged={"validation": 1},
    )
    return Session(
        start=RunStart(
            schema_version=SCHEMA_VERSION, session=0, stage="fit", started_unix_ns=0, rank=0,
            phases=[phase.value for phase in PHASES],
        ),
        records=(span, RunEnd(status="finished", wall_ns=1_050, steps=10)),
        columns={name: np.array(values, dtype=np.int64) for name, values in columns.items()},
    )  # fmt: skip


@pytest.fixture
def steady(session):
    return steady_steps(session)


def test_what_is_not_known_by_phase_is_spread_as_in_the_marked_steps(session, steady):
    phases = phase_split(UntimedPhases(session, steady))

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


def with_unmarked(session, **changed):
    """The session with another record of its steps without marks."""
    first, *others = session.records
    return replace(session, records=(structs.replace(first, **changed), *others))


def test_means_are_of_all_steps_and_add_up_to_the_mean_step(session, steady):
    # The eight others take 50 ns each, beside a validation of 50 in one of them.
    quicker = with_unmarked(session, dur_ns=450)
    every, phases = every_step(quicker, steady), phase_split(UntimedPhases(quicker, steady))

    assert every.step_ns == (2 * 100 + 450) / 10
    assert step_stats(quicker, every.step_ns).dur.mean_ns == 65
    means = {phase: stats.per_step for phase, stats in phases.items() if stats.per_step}
    assert means[Phase.FORWARD].mean_ns == (2 * 30 + 8 * 15) / 10
    assert means[Phase.FORWARD].frac == pytest.approx(18 / 65)
    assert sum(mean.mean_ns for mean in means.values()) == 65
    assert means[Phase.VALIDATION].mean_ns == every.mean_ns(Phase.VALIDATION) == 5
    assert (
        part_split(UntimedPhases(quicker, steady))[0].per_step.mean_ns
        == means[Phase.CALLBACKS].mean_ns
        == 6
    )


def test_the_first_step_of_an_epoch_is_no_sample_of_steps_without_marks(session, steady):
    columns = session.columns | {
        "flags": np.array([0, int(StepFlag.EPOCH_START)]),
        "dur_ns": np.array([100, 1_070]),
        "phase/forward": np.array([30, 1_000]),
    }
    begun = replace(session, columns=columns)

    assert (
        phase_split(UntimedPhases(begun, steady))[Phase.FORWARD].per_step.mean_ns
        == (30 + 1_000 + 8 * 30) / 10
    )


def test_the_programs_own_calls_of_a_logger_are_known_of_marked_steps_alone(session, steady):
    # Each of the ten steps takes 100 ns: 20 of them a picture, 10 a logger.
    columns = session.columns | {
        "phase/backward": np.array([30, 30]),
        "phase/logging": np.array([30, 30]),
        "part/logging/CSVLogger": np.array([10, 10]),
        "part/logging/experiment.add_image": np.array([20, 20]),
    }
    start = structs.replace(session.start, phases=[*session.start.phases, "logging"])
    logged = with_unmarked(
        replace(session, columns=columns, start=start), dur_ns=800, phase_ns={"logging": 80},
        part_ns={"logging/CSVLogger": 80},
    )  # fmt: skip
    untimed = UntimedPhases(logged, steady)
    phases = phase_split(untimed)

    assert {part.name: (part.per_step.mean_ns, part.total_ns) for part in part_split(untimed)} == {
        "experiment.add_image": (20, 200),
        "CSVLogger": (10, 100),
        "EMA": (10, 100),
    }
    means = {phase: stats.per_step.mean_ns for phase, stats in phases.items() if stats.per_step}
    assert (means[Phase.LOGGING], means[Phase.FORWARD], sum(means.values())) == (30, 30, 100)
    assert sum(stats.total_ns for stats in phases.values()) == 1_000


def test_a_checkpoint_between_epochs_is_one_of_all(session, steady):
    between = OutsideSpan(
        where="epoch_end", start_ns=0, dur_ns=90, phase_ns={"checkpoint": 80, "logging": 10},
        flagged={"checkpoint": 1},
    )  # fmt: skip
    records = (*session.records, between, structs.replace(between, where="teardown"))
    start = structs.replace(session.start, phases=[*session.start.phases, "checkpoint"])
    every = every_step(replace(session, records=records, start=start), steady)

    assert (every.mean_ns(Phase.CHECKPOINT), every.flagged["checkpoint"]) == (8, 1)
    assert every.step_ns == 105
