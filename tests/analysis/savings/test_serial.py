"""Savings of serial work of the training process: by the laws, and against a simulation."""

import random

import pytest
from pipeline_simulation import simulate

from lightning_gpuprof.analysis.savings import serial
from lightning_gpuprof.analysis.savings.pipeline import Pipeline
from lightning_gpuprof.analysis.savings.serial import without_serial_work
from lightning_gpuprof.records.phases import Phase
from lightning_gpuprof.records.schema import Device, Loader

MS = 1_000_000
WORK = {"callbacks": 2 * MS, "forward": 8 * MS}


@pytest.fixture
def without(analyze, monkeypatch):
    """Return what a step saves in a run with this pipeline."""

    def saved(each_ns, every=1.0, *, pipeline=None, device=None, **options):
        monkeypatch.setattr(Pipeline, "of", classmethod(lambda cls, run: pipeline))
        run = analyze(WORK, device=device, loader=Loader(num_workers=2))
        lost = without_serial_work(run, Phase.CALLBACKS, each_ns, every, **options)
        return lost.low_ns, lost.high_ns

    return saved


def pipeline(**options):
    measured = vars(simulate(**options))
    return Pipeline.measured(**measured, workers=options["workers"], cores=options["cores"])


def test_without_workers_all_of_it_is_saved(without):
    assert without(2 * MS) == (1_600_000, 2_400_000)
    assert without(100 * MS, 50) == (1_600_000, 2_400_000)
    assert without(2 * MS, gone_frac=(0.5, 0.9)) == (800_000, 2_160_000)


def test_a_step_that_waits_for_workers_gets_no_shorter(without):
    starved = pipeline(train_ns=4 * MS, make_ns=20 * MS, workers=2, cores=4)
    low_ns, high_ns = without(2 * MS, pipeline=starved)
    assert low_ns == 0
    assert high_ns < 0.25 * MS


def test_a_step_that_waits_for_the_training_process_does(without):
    ahead = pipeline(train_ns=10 * MS, make_ns=4 * MS, workers=2, cores=4)
    low_ns, high_ns = without(2 * MS, pipeline=ahead)
    assert 1.2 * MS < low_ns < 2 * MS < high_ns < 2.5 * MS


def test_workers_make_batches_during_rare_work(without):
    starved = pipeline(train_ns=4 * MS, make_ns=20 * MS, workers=2, cores=4)
    # Four batches, each of which takes 10 ms of a step, are made in 40 of 100 ms.
    low_ns, high_ns = without(100 * MS, 50, pipeline=starved)
    assert low_ns == pytest.approx(0.6 * 1_600_000, rel=0.1)
    assert high_ns == 2_400_000
    assert without(30 * MS, 15, pipeline=starved)[0] == 0
    assert without(100 * MS, 50, pipeline=starved, amid_epochs=False)[0] == 1_600_000


def test_on_a_gpu_a_step_is_at_least_as_long_as_workers_take(without):
    starved = pipeline(train_ns=4 * MS, make_ns=20 * MS, workers=2, cores=4)
    low_ns, high_ns = without(2 * MS, pipeline=starved, device=Device(type="cuda"))
    assert low_ns == 0
    assert high_ns < 2 * MS
    assert without(2 * MS, device=Device(type="cuda"), on_device=True) == (1_600_000, 2_400_000)


def some(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        options = {
            "train_ns": draw.uniform(4, 20) * MS,
            "make_ns": draw.uniform(1, 60) * MS,
            "storage_ns": draw.choice([0.0, 0.0, draw.uniform(1, 30) * MS]),
            "workers": draw.randint(1, 8),
            "cores": draw.randint(1, 8),
        }
        yield options, draw.uniform(0.1, 0.6)


def test_less_work_in_each_step_lies_in_the_interval_nine_times_in_ten():
    inside, count = 0, 200
    for options, frac in some(count, seed=3):
        today, gone_ns = pipeline(**options), frac * options["train_ns"]
        low_ns, high_ns = today.step_with_less_training(gone_ns, gone_ns)
        new_ns = simulate(**options | {"train_ns": options["train_ns"] - gone_ns}).step_ns
        inside += 0.95 * low_ns <= new_ns <= 1.05 * high_ns
    assert inside >= 0.9 * count


def test_less_rare_work_lies_in_the_interval_nine_times_in_ten():
    inside, count, every = 0, 200, 50
    for options, frac in some(count, seed=4):
        rare_ns = 20 * frac * options["train_ns"]
        steady = simulate(**options).step_ns
        saved_ns = simulate(**options, rare_ns=rare_ns, every=every).step_ns - steady
        low_ns = pipeline(**options).least_lost_frac(rare_ns, serial.PREFETCH) * rare_ns / every
        inside += low_ns - 0.05 * steady <= saved_ns <= rare_ns / every + 0.05 * steady
    assert inside >= 0.9 * count
