"""The model of a loader's pipeline against pipelines that are simulated event by event."""

import random

import pytest
from pipeline_simulation import simulate

from lightning_gpuprof.analysis.savings.pipeline import Pipeline

MS = 1e6


def pipeline_of(measured, workers, cores):
    return Pipeline.measured(**vars(measured), workers=workers, cores=cores)


def some_pipelines(count, seed):
    """Yield arguments of pipelines of many kinds: any of the four demands may be the largest."""
    draw = random.Random(seed)
    for _ in range(count):
        yield {
            "train_ns": draw.uniform(1, 20) * MS,
            "make_ns": draw.uniform(1, 60) * MS,
            "storage_ns": draw.choice([0.0, 0.0, draw.uniform(1, 30) * MS]),
            "workers": draw.randint(1, 8),
            "cores": draw.randint(1, 8),
            "others": draw.choice([0, 0, 1, 3]),
        }


def test_the_demands_are_those_of_the_simulation():
    measured = simulate(train_ns=5 * MS, make_ns=8 * MS, workers=2, cores=2)
    pipeline = pipeline_of(measured, 2, 2)
    assert pipeline.train_ns == pytest.approx(5 * MS, rel=0.02)
    assert pipeline.make_ns == pytest.approx(8 * MS, rel=0.15)


def test_most_steps_are_explained():
    explained = [
        pipeline_of(simulate(**options), options["workers"], options["cores"]).explains_step
        for options in some_pipelines(200, seed=1)
    ]
    assert sum(explained) >= 190


@pytest.mark.parametrize("frac", [0.3, 0.6, 0.95])
def test_the_new_step_lies_in_the_interval_nine_times_in_ten(frac):
    inside, count = 0, 200
    for options in some_pipelines(count, seed=2):
        today = simulate(**options)
        pipeline = pipeline_of(today, options["workers"], options["cores"])
        left = {key: (1 - frac) * options[key] for key in ("make_ns", "storage_ns")}
        new_ns = simulate(**{**options, **left}).step_ns
        low_ns, high_ns = pipeline.step_without(frac, frac)
        inside += 0.95 * low_ns <= new_ns <= 1.05 * high_ns
    assert inside >= 0.9 * count


def test_less_work_for_busy_cores_speeds_up_the_rest():
    """Two workers and the training process share two cores: more is saved than the wait."""
    options = {"train_ns": 3 * MS, "workers": 2, "cores": 2}
    today = simulate(make_ns=20 * MS, **options)
    low_ns, high_ns = pipeline_of(today, 2, 2).step_without(0.9, 0.99)
    new_ns = simulate(make_ns=0.2 * MS, **options).step_ns
    assert new_ns < today.step_ns - today.empty_ns
    assert low_ns <= 1.05 * new_ns
    assert high_ns < 0.6 * today.step_ns


def test_busy_cores_of_other_programs_stay_busy():
    options = {"train_ns": 3 * MS, "workers": 1, "cores": 1, "others": 3}
    pipeline = pipeline_of(simulate(make_ns=1 * MS, **options), 1, 1)
    low_ns, _ = pipeline.step_without(1.0, 1.0)
    assert low_ns == pytest.approx(4 * 3 * MS, rel=0.1)
